package progress_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/converge/progress"
)

func Example() {
	ctx := progress.With(context.Background(), func(u progress.Update) { fmt.Println("·", u) })
	progress.Say(ctx, "waiting for %s", "wk-gpu1")
	progress.Report(ctx, progress.Update{Message: "downloading", Done: 40, Total: 100})
	fmt.Fprint(progress.Lines(ctx), "Setting up libnvidia\r\nDone.\nunfin")
	// Output:
	// · waiting for wk-gpu1
	// · downloading 40 %
	// · Setting up libnvidia
	// · Done.
}

func TestNobodyListens(t *testing.T) {
	assert.NotPanics(t, func() {
		progress.Say(context.Background(), "x")
		fmt.Fprintln(progress.Lines(context.Background()), "y")
	})
}

func TestEndlessLineIsBounded(t *testing.T) {
	var got []string
	ctx := progress.With(context.Background(), func(u progress.Update) { got = append(got, u.Message) })
	w := progress.Lines(ctx)
	for range 100 {
		fmt.Fprint(w, strings.Repeat("x", 1000))
	}
	fmt.Fprint(w, "\nend\n")
	assert.Equal(t, "end", got[len(got)-1])
}
