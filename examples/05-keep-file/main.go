// Command 05-keep-file keeps a file as it was told, with the engine that builds
// clusters. There is no Kubernetes in it, and no other machine.
//
//	go run . -path /tmp/motd/today -text 'back at nine' -plan    # says what it would do
//	go run . -path /tmp/motd/today -text 'back at nine'          # does it; the second time, nothing
//
// Each step is a look, a pure comparison and an action. Plan is the look alone, and Run
// is done when looking again finds nothing to do. The file needs its folder: where that
// is missing, the plan says that the file cannot be looked at yet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
)

func main() {
	path := flag.String("path", "", "the file")
	text := flag.String("text", "", "what it should hold")
	planOnly := flag.Bool("plan", false, "only say what would be done")
	flag.Parse()

	if err := keep(context.Background(), *path, *text, *planOnly); err != nil {
		fmt.Fprintln(os.Stderr, "keep-file:", err)
		os.Exit(1)
	}
}

func keep(ctx context.Context, path, text string, planOnly bool) error {
	graph := steps(path, filepath.Dir(path), text)
	if planOnly {
		plan, err := graph.Plan(ctx)
		if err != nil {
			return err
		}
		for _, item := range plan.Items {
			fmt.Println(item.Step, item.Verdict, item.Diff, item.Because)
		}
		return plan.Err()
	}
	_, err := graph.Run(ctx, func(e converge.Event) {
		if e.Kind.Final() || e.Kind == converge.Acting {
			fmt.Println(e.Step, e.Kind, e.Diff)
		}
	})
	return err
}

func steps(path, folder, text string) *converge.Graph {
	graph := &converge.Graph{}
	there := graph.Add(&converge.Resource[fs.FileInfo]{
		ID:      "folder",
		Observe: func(context.Context) (fs.FileInfo, error) { return orNil(os.Stat(folder)) },
		Diff:    func(have fs.FileInfo) drift.Diff { return drift.Compare(folder, have != nil, true, drift.Create) },
		Apply:   func(context.Context, fs.FileInfo) error { return os.MkdirAll(folder, 0o755) },
	})
	graph.Add(&converge.Resource[[]byte]{
		ID:      "file",
		Observe: func(context.Context) ([]byte, error) { return orNil(os.ReadFile(path)) },
		Diff:    func(have []byte) drift.Diff { return drift.Compare("content", string(have), text, drift.Update) },
		Apply:   func(context.Context, []byte) error { return os.WriteFile(path, []byte(text), 0o644) },
	}, there)
	return graph
}

// orNil turns "it is not there" from an error into a state.
func orNil[T any](have T, err error) (T, error) {
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return have, err
}
