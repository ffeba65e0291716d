// Package history keeps what earlier commands found, beside the cluster's other files: the results
// of gpu:verify, with what is worse than before, and what the last run said if it failed.
//
// The file of results has a line of JSON for each GPU of each run, and one for each node. A later version adds keys, and never
// changes what a key means: readers ignore keys that they do not know.
package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/cps-gpu/homelab/internal/keep"
)

// File is the name of the file.
const File = "gpu-verify.jsonl"

// ModelFile is the name of the file with the results of model:verify. Its records have the name of the model
// as Node, its source as Model, and its engine as Driver.
const ModelFile = "model-verify.jsonl"

// Schema is the version of the records that this program writes.
const Schema = 1

// Whole is the index of what was checked of a node as a whole.
const Whole = -1

// Record is the result of one GPU, or of a whole node, in one run.
type Record struct {
	Schema   int       `json:"schema"`
	Time     time.Time `json:"time"`            // of the run: the same in all its records
	Level    string    `json:"level,omitempty"` // how much was tested; empty: quick
	Node     string    `json:"node"`
	Index    int       `json:"index"` // in the container; Whole: the node
	UUID     string    `json:"uuid"`
	Model    string    `json:"model"`
	Driver   string    `json:"driver"`
	Memory   int64     `json:"memory"` // bytes
	Passed   bool      `json:"passed"`
	Lab      bool      `json:"lab,omitempty"`    // the GPU is simulated
	Detail   string    `json:"detail,omitempty"` // why it failed
	Note     string    `json:"note,omitempty"`   // what the result does not prove
	Checks   []Check   `json:"checks,omitempty"`
	Measures []Measure `json:"measures,omitempty"` // of all checks
}

// Check is what one check of a record found.
type Check struct {
	Name    string `json:"check"`
	Verdict string `json:"verdict"` // passed, warning, failed or skipped
	Detail  string `json:"detail,omitempty"`
}

// SameSubject reports whether two records are of the same GPU, on any node, or of the same node.
func (r Record) SameSubject(other Record) bool {
	if r.UUID != "" || other.UUID != "" {
		return r.UUID == other.UUID
	}
	return r.Node == other.Node && r.Index == other.Index
}

// Measure is something that a test measured. The first of a record is the main one.
type Measure struct {
	Name  string  `json:"name"` // e.g. memory bandwidth
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`           // e.g. GB/s
	Less  bool    `json:"less,omitempty"` // less is better, as of a duration
}

// String returns the value with its unit.
func (m Measure) String() string {
	digits := 0
	for v := math.Abs(m.Value); v > 0 && v < 100 && digits < 3; v *= 10 {
		digits++
	}
	text := strconv.FormatFloat(m.Value, 'f', digits, 64)
	if m.Unit != "" {
		text += " " + m.Unit
	}
	return text
}

// Read returns the records of a file that are of the lab, or those that are not, in its order;
// none if there is no file: a cluster that was tried in the lab has results of both. Lines that
// are not records are left out: bad counts them.
func Read(path string, lab bool) (records []Record, bad int, err error) {
	data, err := os.ReadFile(path) //nolint:gosec // the cluster's own folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("results of earlier runs: %w", err)
	}
	for line := range bytes.Lines(data) {
		var r Record
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0:
		case json.Unmarshal(line, &r) != nil || r.Schema < 1 || r.Time.IsZero():
			bad++
		case r.Lab != lab:
		default:
			records = append(records, r)
		}
	}
	return records, bad, nil
}

// most is the size from which the older half of the file is dropped: some thousand runs of
// eight GPUs.
const most = 4 << 20

// Add appends records to a file, which is replaced as a whole: a full disk leaves the old one.
func Add(path string, records ...Record) error {
	data, err := os.ReadFile(path) //nolint:gosec // the cluster's own folder
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("results of earlier runs: %w", err)
	}
	if len(data) > most {
		data = data[len(data)/2:]
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	for _, r := range records {
		r.Schema = Schema
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		data = append(append(data, line...), '\n')
	}
	return keep.WriteFile(path, data, 0o600)
}

// RecordsOf returns the records of the same GPU or node, the oldest first.
func RecordsOf(records []Record, of Record) []Record {
	var out []Record
	for _, r := range records {
		if r.SameSubject(of) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Record) int { return a.Time.Compare(b.Time) })
	return out
}

// Latest returns the records of the latest run of each node.
func Latest(records []Record) []Record {
	last := map[string]time.Time{}
	for _, r := range records {
		if r.Time.After(last[r.Node]) {
			last[r.Node] = r.Time
		}
	}
	return slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return !r.Time.Equal(last[r.Node]) })
}
