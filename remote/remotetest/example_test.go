package remotetest_test

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/remotetest"
)

// A Runner of one's own passes the suite in a test of its package.
func Example() {
	runner := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
		_, err := fmt.Fprintln(cmd.Stdout, cmd.Args[0])
		return err
	})
	_ = remotetest.Contract // remotetest.Contract(t, func(*testing.T) remote.Runner { return runner })
	out, err := remote.Output(context.Background(), runner, "hostname")
	fmt.Print(string(out), err)
	// Output:
	// hostname
	// <nil>
}
