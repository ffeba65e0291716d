package harvestersim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
)

// admit is what Harvester's webhooks do with new objects.
func (s *Sim) admit(obj object, get func(resource, namespace, name string) map[string]any) error {
	switch textAt(obj, "kind") {
	case "VirtualMachine":
		return s.admitVM(obj, nil)
	case "PCIDeviceClaim":
		d := get("pcidevices.devices.harvesterhci.io", "", textAt(obj, "metadata", "name"))
		switch {
		case d == nil:
			return fmt.Errorf("pcidevices.devices.harvesterhci.io %q not found", textAt(obj, "metadata", "name"))
		case textAt(d, "status", "iommuGroup") == "":
			return fmt.Errorf("pcidevice %s has no iommuGroup available", textAt(obj, "metadata", "name"))
		}
	case "VirtualMachineImage":
		switch {
		case textAt(obj, "spec", "displayName") == "":
			return errors.New("displayName is required")
		case textAt(obj, "spec", "sourceType") == "download" && textAt(obj, "spec", "url") == "":
			return errors.New("url is required")
		}
		if textAt(obj, "spec", "backend") == "" {
			obj["spec"].(object)["backend"] = "backingimage"
		}
	case "PersistentVolumeClaim":
		if textAt(obj, "spec", "storageClassName") == "longhorn-static" {
			return errors.New("can not create volume with the reserved storage class longhorn-static")
		}
	}
	return nil
}

// admitVM checks a machine, and gives it what it asks of a node: a sixteenth of its processors and two thirds of its
// memory (the setting overcommit-config), but all of the guest's memory with devices (patchResourceOvercommit).
func (s *Sim) admitVM(obj, old object) error {
	domain, _ := fieldAt(obj, "spec", "template", "spec", "domain").(object)
	if domain == nil {
		return errors.New("spec.template.spec.domain is required")
	}
	if err := s.checkDevices(domain); err != nil {
		return err
	}
	limits, _ := fieldAt(domain, "resources", "limits").(object)
	memory, cpu := quantity(fmt.Sprint(limits["memory"])), quantity(fmt.Sprint(limits["cpu"]))
	if memory == 0 {
		return errors.New("either memory.guest or resources.limits.memory must be set")
	}
	if old != nil {
		before, _ := fieldAt(old, "spec", "template", "spec", "domain").(object)
		if fmt.Sprint(fieldAt(before, "resources", "limits"), fieldAt(before, "devices", "hostDevices")) == fmt.Sprint(limits, fieldAt(domain, "devices", "hostDevices")) {
			return nil
		}
	}
	const mib = 1 << 20
	inside := memory - 100*mib
	asked := memory * 100 / 150 / mib * mib
	if len(listAt(domain, "devices", "hostDevices")) > 0 {
		asked = inside
	}
	resources := maps.Clone(fieldAt(domain, "resources").(object))
	resources["requests"] = object{"cpu": strconv.FormatInt(cpu*1000/16, 10) + "m", "memory": strconv.FormatInt(asked, 10)}
	domain["resources"] = resources
	domain["memory"] = object{"guest": strconv.FormatInt(inside, 10)}
	return nil
}

// checkDevices is validateDevices of harvester/pcidevices.
func (s *Sim) checkDevices(domain object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := ""
	for _, h := range listAt(domain, "devices", "hostDevices") {
		known := false
		for _, p := range s.hardware {
			known = known || p.Resource == textAt(h, "deviceName")
		}
		if !known {
			return fmt.Errorf("hostdevice %s: resource name %s not found in pcidevice and usbdevice cache", textAt(h, "name"), textAt(h, "deviceName"))
		}
		p, there := s.hardware[textAt(h, "name")]
		switch {
		case !there:
		case node == "":
			node = p.node
		case p.node != node:
			return fmt.Errorf("device pcidevice/%s is not on the same node in VirtualMachine.Spec.Template.Spec.Domain.Devices.HostDevices", textAt(h, "name"))
		}
	}
	return nil
}

// admitChange is what they do with changes and, where obj is nil, deletions.
func (s *Sim) admitChange(old, obj map[string]any) error {
	name := textAt(old, "metadata", "namespace") + "/" + textAt(old, "metadata", "name")
	switch kind := textAt(old, "kind"); {
	case obj == nil && kind == "PCIDeviceClaim":
		s.mu.Lock()
		defer s.mu.Unlock()
		if user := s.users[textAt(old, "metadata", "name")]; user != "" {
			return fmt.Errorf("pcideviceclaim %s is already in use with vm %s", textAt(old, "metadata", "name"), user)
		}
	case obj == nil && kind == "PersistentVolumeClaim":
		s.mu.Lock()
		defer s.mu.Unlock()
		if user := s.attached[name]; user != "" {
			return fmt.Errorf("can not delete the volume %s which is currently attached to VM: %s", textAt(old, "metadata", "name"), user)
		}
	case obj == nil || fieldAt(obj, "metadata", "deletionTimestamp") != nil:
	case kind == "VirtualMachine":
		return s.admitVMChange(old, obj)
	case kind == "VirtualMachineImage":
		for _, field := range []string{"displayName", "sourceType", "url"} {
			if textAt(old, "spec", field) != textAt(obj, "spec", field) {
				return fmt.Errorf("%s cannot be modified", field)
			}
		}
	}
	return nil
}

func (s *Sim) admitVMChange(old, obj object) error {
	if err := s.admitVM(obj, old); err != nil {
		return err
	}
	const templates = "harvesterhci.io/volumeClaimTemplates"
	var before, after []object
	_ = json.Unmarshal([]byte(textAt(old, "metadata", "annotations", templates)), &before)
	if text := textAt(obj, "metadata", "annotations", templates); text != "" && json.Unmarshal([]byte(text), &after) != nil {
		return errors.New("failed to unmarshal " + text)
	}
	for _, b := range before {
		for _, a := range after {
			name := textAt(a, "metadata", "name")
			switch {
			case textAt(b, "metadata", "name") != name:
			case quantity(textAt(a, "spec", "resources", "requests", "storage")) < quantity(textAt(b, "spec", "resources", "requests", "storage")):
				return fmt.Errorf("%s PVC requests storage can't be less than previous value", name)
			case textAt(a, "spec", "storageClassName") != textAt(b, "spec", "storageClassName"):
				return fmt.Errorf("storage class names for the volumes in the %s annotation cannot be changed; new name %s", templates, name)
			}
		}
	}
	if fieldAt(obj, "spec", "running") == nil && textAt(old, "spec", "runStrategy") == "Halted" && textAt(obj, "spec", "runStrategy") != "Halted" {
		strategy := textAt(obj, "metadata", "annotations", "harvesterhci.io/vmRunStrategy")
		if strategy == "" {
			strategy = "RerunOnFailure"
		}
		obj["spec"] = maps.Clone(obj["spec"].(object))
		obj["spec"].(object)["runStrategy"] = strategy
	}
	return nil
}
