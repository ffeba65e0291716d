// Command 04-pick-driver says which NVIDIA driver fits, and why.
//
//	go run . 10de:20f1 10de:1db4    # these cards, in one machine
//	go run .                        # those of this machine
//
// It knows which chips work with which kernel modules and which branches NVIDIA still
// looks after. A driver that is installed stays, as long as it fits: say which with
// -installed. What it prints is for Ubuntu 24.04.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cps-gpu/homelab/nvidia"
)

func main() {
	var policy nvidia.Policy
	flag.StringVar(&policy.Branch, "branch", "", "insist on a branch, e.g. 580-server or 580-server-open")
	flag.StringVar((*string)(&policy.Flavour), "flavour", "", "insist on the kernel modules: open or proprietary")
	flag.StringVar(&policy.Installed, "installed", "", "the series that is there, e.g. 570-server")
	flag.Parse()

	if err := pick(policy, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "pick-driver:", err)
		os.Exit(1)
	}
}

func pick(policy nvidia.Policy, ids []string) error {
	if len(ids) == 0 {
		ids = here("/sys/bus/pci/devices")
	}
	var gpus []nvidia.PCIID
	for _, text := range ids {
		id, err := nvidia.ParsePCIID(text)
		if err != nil {
			return err
		}
		gpus = append(gpus, id)
	}
	if len(gpus) == 0 {
		return errors.New("this machine has no NVIDIA card: name the PCI ids of others, as lspci -n shows them")
	}
	driver, reason, err := nvidia.SelectDriverBranch(gpus, policy)
	if err != nil {
		return err
	}
	fmt.Println("driver:  ", driver)
	fmt.Println("because: ", reason)
	recipe := nvidia.Recipe{Driver: driver}
	fmt.Println("packages:", strings.Join(recipe.Packages(), " "))
	fmt.Println("hold:    ", strings.Join(recipe.Holds(), " "))
	return nil
}

// here lists the ids of this machine's display and 3D controllers of NVIDIA, from
// the files in which Linux shows them. Without PCI there are none.
func here(devices string) (ids []string) {
	folders, _ := filepath.Glob(filepath.Join(devices, "*"))
	for _, folder := range folders {
		read := func(name string) string {
			b, _ := os.ReadFile(filepath.Join(folder, name))
			return strings.TrimSpace(string(b))
		}
		if read("vendor") == "0x10de" && strings.HasPrefix(read("class"), "0x03") {
			ids = append(ids, read("vendor")+":"+read("device"))
		}
	}
	return ids
}
