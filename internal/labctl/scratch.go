package labctl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/cps-gpu/homelab/converge"
)

// Scratch is a snapshot of etcd that a control plane for this purpose starts from. It is the
// standard input of `labd scratch`, as JSON.
type Scratch struct {
	Snapshot   []byte `json:"snapshot"`   // with etcd's SHA-256 at its end
	Encryption []byte `json:"encryption"` // the API server's configuration with the key of Secrets; empty: they are plain
	Services   string `json:"services"`   // network of the cluster's Services; empty: K3s' own
}

// ScratchContents are what the control plane has read; its answer.
type ScratchContents struct {
	Kubernetes string            `json:"kubernetes"`       // version of the control plane
	Objects    map[string]int    `json:"objects"`          // by resource and group, e.g. deployments.apps
	Unread     map[string]string `json:"unread,omitempty"` // why objects could not be read, by resource and group
}

// ReadScratch starts etcd and an API server from a snapshot, in processes of the lab's program on
// loopback, and returns what the API server reads. It needs no running lab, and leaves none.
func ReadScratch(ctx context.Context, o Options, s Scratch) (ScratchContents, error) {
	var out ScratchContents
	if o.Binary == "" {
		var err error
		o.Guests.Kubernetes = true
		if o.Binary, err = Build(ctx, o); err != nil {
			return out, err
		}
	}
	dir, err := o.dir()
	if err != nil {
		return out, err
	}
	in, err := json.Marshal(s)
	if err != nil {
		return out, err
	}
	converge.Progressf(ctx, "starting a control plane from the snapshot, on loopback")
	cmd := exec.CommandContext(ctx, o.Binary, "scratch", "-dir="+dir) //nolint:gosec // our own build
	var said, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &said, &errs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopPatience
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		return out, fmt.Errorf("Kubernetes does not start from the snapshot: %s (%w)", strings.TrimSpace(errs.String()), err)
	}
	if err := json.Unmarshal(said.Bytes(), &out); err != nil {
		return out, fmt.Errorf("the answer of the scratch control plane: %w", err)
	}
	return out, nil
}
