package model_test

import (
	"fmt"
	"log"

	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// A model has a name, or is written in Go or as YAML; pvesim.New starts a simulator with it.
func ExampleLoadModel() {
	hosts, err := model.LoadModel("one-gpu")
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range hosts.Hosts {
		fmt.Printf("%s has storages: %t, PCI functions: %d\n", h.Name, len(h.Storages) > 0, len(h.PCI))
	}
	// Output: pve1 has storages: true, PCI functions: 4
}
