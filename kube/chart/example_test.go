package chart_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/kube/chart"
)

func Example() {
	part := chart.Part{Name: "web", Release: &chart.Release{Name: "site", Namespace: "web", Chart: "web", Version: "1.0.0",
		Values: map[string]any{"image": map[string]any{"tag": "1.27"}}}}
	chart.Merge(part.Release.Values, map[string]any{"image": map[string]any{"pullPolicy": "Always"}})
	fmt.Println(part.Release.Values)

	problems, err := chart.SchemaProblems([]byte(`{"properties": {"image": {"properties": {"tag": {"type": "integer"}}}}}`), part.Release.Values)
	fmt.Println(problems, err)
	// Output:
	// map[image:map[pullPolicy:Always tag:1.27]]
	// [image.tag: must be integer, and is string] <nil>
}
