// Command cluster is what a program that creates a whole cluster has of ours.
package main

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
)

func main() {
	spec, err := cluster.Load("cluster.yaml")
	if err != nil {
		return
	}
	c, err := cluster.New(spec, cluster.Backend{})
	_, _ = c.Up().Run(context.Background(), func(converge.Event) {})
	fmt.Println(err)
}
