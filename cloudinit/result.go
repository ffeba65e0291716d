package cloudinit

import (
	"encoding/json"
	"fmt"
)

// ResultFile is the file that cloud-init writes at the end of a boot and removes at the start
// of the next (status_wrapper of its cloudinit/cmd/main.py). It can be read through the guest
// agent if a login is not possible.
const ResultFile = "/var/lib/cloud/data/result.json"

// ParseResult reads a [ResultFile]: Done, or Failed with what went wrong in any stage.
func ParseResult(out []byte) (Status, error) {
	var result struct {
		V1 struct {
			Datasource string   `json:"datasource"`
			Errors     []string `json:"errors"`
		} `json:"v1"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return Status{}, fmt.Errorf("%s: %w", ResultFile, err)
	}
	s := Status{State: Done, Datasource: result.V1.Datasource, Errors: result.V1.Errors}
	if len(s.Errors) > 0 {
		s.State = Failed
	}
	return s, nil
}
