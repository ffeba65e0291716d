package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/cps-gpu/homelab/internal/keep"
)

// RunFile is the name of the file with the last run, if that failed.
const RunFile = "failed-run.json"

// Run is a run that failed.
type Run struct {
	Ended  time.Time `json:"ended"`
	Failed []Step    `json:"failed"`
}

// Step is a step that failed, and its error without secrets.
type Step struct {
	Name  string `json:"step"`
	Error string `json:"error"`
}

// SaveRun remembers a run that has ended: of one that failed its steps, and otherwise nothing.
func SaveRun(path string, r Run) error {
	if len(r.Failed) == 0 {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return keep.WriteFile(path, append(data, '\n'), 0o600)
}

// LastRun returns the last run on this machine if that failed, and else nil.
func LastRun(path string) (*Run, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the cluster's own folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var r Run
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("the last run: %w", err)
	}
	return &r, nil
}
