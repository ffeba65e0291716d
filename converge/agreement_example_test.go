package converge_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/converge"
)

// Whoever may restart machines may not destroy any.
func ExampleAgreement() {
	agreed := &converge.Agreement{Restarts: true}
	graph := converge.Graph{Approve: agreed.Approve}
	graph.Add(&converge.Resource[bool]{
		ID:      "removed",
		Observe: func(context.Context) (bool, error) { return true, nil },
		Diff:    func(bool) converge.Diff { return converge.DiffUnwanted("VM 108 on pve1") },
		Apply:   func(context.Context, bool) error { panic("destroyed") },
		Costs: func(context.Context, bool, converge.Diff) []converge.Cost {
			return []converge.Cost{{Machine: "wk4", Kind: converge.CostDestroy, Reason: "no longer in the file", Users: []converge.Loss{{Text: "the notebook of student3"}}}}
		},
	})
	_, err := graph.Run(context.Background(), nil)
	var no *converge.RefusedError
	if errors.As(err, &no) {
		fmt.Println(no.Costs[0], "and with it", no.Costs[0].Users[0])
	}
	fmt.Println(agreed.Names(no.Costs...))
	// Output:
	// wk4 is destroyed and with it the notebook of student3
	// [wk4]
}
