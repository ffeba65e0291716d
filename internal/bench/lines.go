package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/cps-gpu/homelab/nvidia/check"
)

// Line is what a program says about a GPU, a pair of GPUs, or all of them.
type Line struct {
	GPU    *int               `json:"gpu"`    // in the container; nil: all
	Peer   *int               `json:"peer"`   // of a pair
	UUID   string             `json:"uuid"`   // of a GPU's first line, like the next three
	Model  string             `json:"model"`  // e.g. NVIDIA A100-PCIE-40GB
	Driver string             `json:"driver"` // version
	Memory int64              `json:"memory"` // MiB
	Values map[string]float64 `json:"values"` // by the program's name for it
	Error  string             `json:"error"`  // why there are no values
}

// Parse reads the last words of a program. What is not a line of it is an error, as are lines that
// no program writes; the lines that are good are returned all the same.
func Parse(words string) ([]Line, error) {
	var out []Line
	var errs []error
	for text := range strings.Lines(words) {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		var l Line
		if err := json.Unmarshal([]byte(text), &l); err != nil || !l.valid() {
			errs = append(errs, fmt.Errorf("%.200q is not a result", text))
			continue
		}
		if l.GPU == nil && l.Error != "" {
			errs = append(errs, errors.New(l.Error))
			continue
		}
		out = append(out, l)
	}
	if len(out) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("the program left no result"))
	}
	return out, errors.Join(errs...)
}

func (l Line) valid() bool {
	for _, i := range []*int{l.GPU, l.Peer} {
		if i != nil && (*i < 0 || *i > 255) {
			return false
		}
	}
	for _, v := range l.Values {
		if v < 0 || math.IsInf(v, 0) {
			return false
		}
	}
	return l.Memory >= 0 && (l.Peer == nil || l.GPU != nil) && (l.GPU != nil || l.UUID == "")
}

// Results are the GPUs of the lines as the verification of package nvidia has them: one passed if
// all its numbers are right.
func Results(lines []Line) []check.VerifyResult {
	var out []check.VerifyResult
	for _, l := range lines {
		if l.UUID == "" || l.GPU == nil {
			continue
		}
		r := check.VerifyResult{UUID: l.UUID, Index: *l.GPU, Name: l.Model, Driver: l.Driver, Memory: l.Memory << 20}
		r.Detail = l.problem()
		r.Passed = r.Detail == ""
		out = append(out, r)
	}
	return out
}

// problem says what is wrong with what was computed or copied; empty: nothing.
func (l Line) problem() string {
	if n := l.Values["wrong"]; n > 0 {
		return fmt.Sprintf("%.0f numbers were wrong", n)
	}
	return l.Error
}
