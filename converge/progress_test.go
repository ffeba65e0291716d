package converge_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/converge"
)

func ExampleWithProgress() {
	ctx := converge.WithProgress(context.Background(), func(u converge.ProgressUpdate) { fmt.Println("·", u) })
	converge.Progressf(ctx, "waiting for %s", "wk-gpu1")
	converge.Notify(ctx, converge.ProgressUpdate{Message: "downloading", Done: 40, Total: 100})
	fmt.Fprint(converge.ProgressWriter(ctx), "Setting up libnvidia\r\nDone.\nunfin")
	// Output:
	// · waiting for wk-gpu1
	// · downloading 40 %
	// · Setting up libnvidia
	// · Done.
}

func TestNobodyListens(t *testing.T) {
	assert.NotPanics(t, func() {
		converge.Progressf(context.Background(), "x")
		fmt.Fprintln(converge.ProgressWriter(context.Background()), "y")
	})
}

func TestEndlessLineIsBounded(t *testing.T) {
	var got []string
	ctx := converge.WithProgress(context.Background(), func(u converge.ProgressUpdate) { got = append(got, u.Message) })
	w := converge.ProgressWriter(ctx)
	for range 100 {
		fmt.Fprint(w, strings.Repeat("x", 1000))
	}
	fmt.Fprint(w, "\nend\n")
	assert.Equal(t, "end", got[len(got)-1])
}
