package labctl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/cps-gpu/homelab/converge"
)

// Preparation is what a lab starts with; the answer of `labd prepare` to [Needs]. What it does
// meanwhile is on its standard error, a line each.
type Preparation struct {
	Model   string `json:"model"` // a preset's name, or the file of a generated model
	Guests  Guests `json:"guests,omitzero"`
	Refusal string `json:"refusal,omitempty"` // why this machine cannot give what is needed; empty: it can
}

// RefusalError says why this machine cannot run the lab that is needed.
type RefusalError struct{ Why string }

func (e *RefusalError) Error() string { return e.Why }

// prepare has the program choose hardware and guests for o.Needs, and make the guests' image,
// which takes minutes once.
func (o *Options) prepare(ctx context.Context) error {
	dir, err := o.dir()
	if err != nil {
		return err
	}
	in, err := json.Marshal(o.Needs)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, o.Binary, "prepare", "-dir="+dir) //nolint:gosec // our own build
	var answer bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &answer, converge.ProgressWriter(ctx)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopPatience
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("the lab cannot choose its hardware: %w", err)
	}
	var p Preparation
	if err := json.Unmarshal(answer.Bytes(), &p); err != nil {
		return fmt.Errorf("the lab's choice of hardware: %w", err)
	}
	if p.Refusal != "" {
		return &RefusalError{Why: p.Refusal}
	}
	o.Model, o.Guests = p.Model, p.Guests
	return nil
}
