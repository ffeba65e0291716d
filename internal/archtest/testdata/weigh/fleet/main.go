// Command fleet is what a program that brings parts to a cluster by Git has of ours.
package main

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

func main() {
	ctx := context.Background()
	bundles, err := fleet.BundlesOfAll(chart.Part{Name: "web", Release: &chart.Release{Name: "web"}})
	fmt.Println(err)
	tree, err := fleet.Render(bundles, fleet.Options{})
	fmt.Println(err)
	fmt.Println(fleet.Remote{URL: "https://git.lan/fleet"}.Push(ctx, tree, fleet.PushOptions{}))
	cluster, err := kube.New(kube.Config{})
	fmt.Println(err)
	fmt.Println(fleet.Observe(ctx, cluster, fleet.StatusOptions{}))
}
