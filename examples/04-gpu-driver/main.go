// Command 04-gpu-driver chooses the NVIDIA driver that fits all cards of a machine, says
// why, and installs it.
//
//	go run . 10de:20f1 10de:20f1 10de:1db4                     # say which, as lspci -n shows them
//	go run . -on ubuntu@10.0.0.21 10de:20f1 10de:20f1 10de:1db4   # and install it, on Ubuntu 24.04
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

func main() {
	var policy nvidia.Policy
	flag.StringVar(&policy.Branch, "branch", "", "insist on a branch, e.g. 580-server")
	on := flag.String("on", "", "user@host to install it on; must be allowed sudo without a password")
	flag.Parse()
	var gpus []nvidia.PCIID
	for _, text := range flag.Args() {
		id, err := nvidia.ParsePCIID(text)
		check(err)
		gpus = append(gpus, id)
	}
	driver, why, err := nvidia.SelectDriverBranch(gpus, policy)
	check(err)
	recipe := nvidia.Recipe{Driver: driver}
	fmt.Printf("driver:   %s\nbecause:  %s\npackages: %s\n", driver, why, strings.Join(recipe.Packages(), " "))
	if *on != "" {
		install(context.Background(), *on, recipe)
	}
}

func install(ctx context.Context, on string, recipe nvidia.Recipe) {
	machine, err := ssh.Login(ctx, on)
	check(err)
	root := remote.Sudo(machine)
	state, err := nvidia.ObserveDriver(ctx, root)
	check(err)
	recipe = recipe.ForMachine(state) // its kernel, and switches between its GPUs
	check(nvidia.InstallDriver(ctx, root, recipe))
	state, err = nvidia.ObserveDriver(ctx, root)
	check(err)
	fmt.Printf("installed; left to do: [%s]\n", recipe.Diff(state))
	check(machine.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
