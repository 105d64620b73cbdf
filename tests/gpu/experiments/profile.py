"""What was measured, as a driver's profile: a file for sim/drivers, with every field that the profile of the nearest release has."""
import datetime
import pathlib
import re


def number_of(release):
    return tuple(map(int, re.findall(r"\d+", release)[:2]))


def read(path):
    """The fields of a profile in their order: `{name: (value as it is written, its comment's lines)}`."""
    fields, comment = {}, []
    for line in pathlib.Path(path).read_text().splitlines():
        name, equals, value = line.partition(" = ")
        if line.startswith("#"):
            comment.append(line)
        elif equals:
            fields[name] = (value, comment)
            comment = []
    return fields


def profiles(ration):
    """Where the profiles of releases lie: in the package, or in the source."""
    for folder in (pathlib.Path(ration).parents[1] / "lib/ration/sim/drivers", pathlib.Path(__file__).resolve().parents[3] / "sim/drivers"):
        found = sorted(folder.glob("*.toml"))
        if found:
            return found
    return []


def nearest(release, ration):
    """The profile of the newest release that is not newer; else the oldest one."""
    known = sorted((number_of(read(path)["release"][0]), "-" in path.stem, path) for path in profiles(ration))
    older = [entry for entry in known if entry[0] <= number_of(release)] or known[:1]
    newest = max(entry[0] for entry in older)
    return next(path for number, _, path in older if number == newest)


def written(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{key}" = {written(each)}' for key, each in value.items()) + " }"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'


def write(facts, notes, options):
    """NAME.toml, named after release and card; None: the release is not known."""
    if "release" not in facts or not profiles(options.ration):
        return None
    release, card = facts["release"][0], facts.pop("card")[0]
    base = nearest(release, options.ration)
    stem = release.split(".")[0] + "-" + re.sub(r"[^a-z0-9]+", "-", re.sub(r"^(nvidia|tesla) ", "", card.lower())).strip("-")
    lines = [f"# R{release.split('.')[0]} as measured on {card}{' (simulated)' if options.sim else ''} by tests/gpu/run.sh on {datetime.date.today()}.",
             f"# What was not measured is as in {base.name}."]
    lines += [f"# {note} (experiment {number})." for note, number in notes]
    known = read(base)
    for name in facts.keys() - known.keys():
        known[name] = (None, [])
    for name, (value, comment) in known.items():
        if name in facts:
            measured, number = facts[name]
            lines += [f"# Measured: experiment {number}.", f"{name} = {written(measured)}"]
        else:
            lines += [f"# Not measured: as in {base.name}, which says:" if comment else f"# Not measured: as in {base.name}.", *comment, f"{name} = {value}"]
    path = options.out / f"{stem}.toml"
    path.write_text("\n".join(lines) + "\n")
    return path
