#include "instructions.hpp"

#include <fstream>
#include <map>
#include <sstream>

namespace ration::bench {

// A file of callgrind names an object ("ob=(2) path", later "ob=(2)") and then its lines of cost ("line instructions").
// A line of cost behind "calls=" is that of the function called.
double instructions_of(const std::string& callgrind_file, const std::string& library) {
  std::ifstream file(callgrind_file);
  std::map<std::string, std::string> path_of;
  std::string line, object;
  double sum = 0;
  for (bool is_of_another = false; std::getline(file, line);) {
    const auto value = line.find("ob=");
    if (value == 0 || line.rfind("cob=", 0) == 0) {
      std::istringstream words(line.substr(value + 3));
      std::string number, path;
      words >> number;
      if (words >> path) path_of[number] = path;
      if (value == 0) object = path_of[number];
    } else if (line.rfind("calls=", 0) == 0) {
      is_of_another = true;
    } else if (line.find_first_of("0123456789+-*") == 0) {
      std::istringstream words(line);
      std::string place;
      double instructions = 0;
      words >> place >> instructions;
      if (!is_of_another && object == library) sum += instructions;
      is_of_another = false;
    }
  }
  return sum;
}

}  // namespace ration::bench
