package simcheck

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
)

// recorded are exchanges with real Proxmox VE 9.2 daemons: one node, directory
// storage, no KVM, and PCI devices that were files.
//
//go:embed recorded.jsonl.gz
var recorded []byte

// exchange is one request and its answer. The secrets in it are those of daemons
// that lived for a test.
type exchange struct {
	Method   string         `json:"method"`
	Path     string         `json:"path"`
	Params   map[string]any `json:"params,omitempty"`
	JSONBody bool           `json:"json_body,omitempty"`
	Auth     string         `json:"auth,omitempty"`
	Status   int            `json:"status"`
	Reason   string         `json:"reason"`
	Body     string         `json:"body,omitempty"`
}

func (e exchange) String() string { return e.Method + " " + e.Path }

func loadExchanges() ([]exchange, error) {
	var out []exchange
	err := unpack(recorded, func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e exchange
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				return err
			}
			out = append(out, e)
		}
		return lines.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("recorded.jsonl.gz: %w", err)
	}
	return out, nil
}
