// Command clusterfile is what a program that reads a cluster file has of ours: TestWeight builds it.
package main

import (
	"fmt"
	"os"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
)

func main() {
	spec, err := clusterfile.Load("cluster.yaml")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(spec.Name)
}
