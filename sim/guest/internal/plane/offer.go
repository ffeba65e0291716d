package plane

import (
	"errors"
	"fmt"
	"strings"
)

// Instance is a part of a divided GPU.
type Instance struct {
	UUID    string // "MIG-…"
	Profile string // e.g. "3g.20gb"
}

// wholeGPU is the resource of whole GPUs.
const wholeGPU = "nvidia.com/gpu"

// Offer returns the devices that NVIDIA's device plugin registers for a node's GPUs, by
// resource, with one of its strategies for divided GPUs: none, single or mixed. On an error it
// registers nothing.
//
// Source: NVIDIA/k8s-device-plugin, internal/rm/device_map.go and rm.go (2026-08).
func Offer(gpus []GPU, strategy string) (map[string][]string, error) {
	out := map[string][]string{}
	add := func(resource, uuid string) { out[resource] = append(out[resource], uuid) }
	profile, parts := "", 0
	for _, g := range gpus {
		switch {
		case !g.MIG || strategy != "single" && strategy != "mixed":
			add(wholeGPU, g.UUID)
			continue
		case strategy == "single" && len(g.Instances) == 0:
			return nil, fmt.Errorf("invalid MIG configuration: at least one device with migEnabled=true was not configured correctly: device %d has no MIG devices configured", g.Index)
		}
		for _, i := range g.Instances {
			parts++
			if strategy == "mixed" {
				add("nvidia.com/"+strings.ReplaceAll("mig-"+i.Profile, "+", "."), i.UUID)
				continue
			}
			if profile != "" && profile != i.Profile {
				return nil, errors.New("invalid MIG configuration: more than one MIG device type present on node")
			}
			profile = i.Profile
			add(wholeGPU, i.UUID)
		}
	}
	if strategy == "single" && parts > 0 && len(out[wholeGPU]) > parts {
		return nil, errors.New("all devices on the node must be configured with the same migEnabled value")
	}
	return out, nil
}
