// Calls every function of go-nvml on each device, and go-nvlib's view of them, and prints what they answer as JSON: one line a call.
// The name of the call stands on standard error before it is made, so that a crash names it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type answer struct {
	Device string // index, or index/instance of MIG; empty: of the library
	Call   string
	Return string // NVML's name of the code
	Values []string
}

var out = json.NewEncoder(os.Stdout)

// What would end the walk, wait for something, or change the node.
var leftOut = []string{"Init", "InitWithFlags", "Shutdown", "Extensions", "EventSetWait", "EventSetCreate", "RegisterEvents"}

func argument(kind reflect.Type, of nvml.Device, uuid string) (reflect.Value, bool) {
	if kind == reflect.TypeOf((*nvml.Device)(nil)).Elem() {
		return reflect.ValueOf(of), of != nil
	}
	switch kind.Kind() {
	case reflect.String:
		return reflect.ValueOf(uuid).Convert(kind), true
	case reflect.Interface, reflect.Func, reflect.Chan:
		return reflect.Value{}, false
	case reflect.Ptr:
		return reflect.New(kind.Elem()), true
	}
	return reflect.Zero(kind), true
}

func call(name string, deviceName string, function reflect.Value, of nvml.Device, uuid string) {
	var arguments []reflect.Value
	kind := function.Type()
	for place := 0; place < kind.NumIn(); place++ {
		value, possible := argument(kind.In(place), of, uuid)
		if !possible || kind.IsVariadic() {
			return
		}
		arguments = append(arguments, value)
	}
	fmt.Fprintln(os.Stderr, deviceName, name)
	told := answer{Device: deviceName, Call: name}
	defer func() {
		if trouble := recover(); trouble != nil {
			told.Return = fmt.Sprint("panic: ", trouble)
		}
		out.Encode(told)
	}()
	for _, result := range function.Call(arguments) {
		if code, isCode := result.Interface().(nvml.Return); isCode {
			told.Return = strings.TrimPrefix(nvml.ErrorString(code), "ERROR_")
		} else {
			told.Values = append(told.Values, fmt.Sprintf("%+v", result.Interface()))
		}
	}
}

func walk(value any, prefix, deviceName string, of nvml.Device, uuid string) {
	all := reflect.ValueOf(value)
next:
	for index := 0; index < all.NumMethod(); index++ {
		name := all.Type().Method(index).Name
		for _, out := range leftOut {
			if strings.HasSuffix(name, out) {
				continue next
			}
		}
		call(prefix+name, deviceName, all.Method(index), of, uuid)
	}
}

func main() {
	library := nvml.New()
	if code := library.Init(); code != nvml.SUCCESS {
		fmt.Fprintln(os.Stderr, "Init:", code)
		os.Exit(1)
	}
	walk(library, "", "", nil, "GPU-00000000-0000-0000-0000-000000000000")
	err := device.New(library).VisitDevices(func(index int, each device.Device) error {
		uuid, _ := each.GetUUID()
		walk(each, "Device.", fmt.Sprint(index), each, uuid)
		mig, err := each.GetMigDevices()
		for instance, part := range mig {
			uuid, _ := part.GetUUID()
			walk(part, "MigDevice.", fmt.Sprint(index, "/", instance), part, uuid)
		}
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "VisitDevices:", err)
		os.Exit(1)
	}
}
