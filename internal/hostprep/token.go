package hostprep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// TokenCommands returns the commands that [Access.MakeToken] runs, for a plan. The output of the
// last one has the secret.
func (a Access) TokenCommands(s AccessState) [][]string {
	add := []string{"pveum", "user", "token", "add", a.user(), a.token(), "--privsep", "1", "--comment", "homelab: " + a.Owner, "--output-format", "json"}
	if s.Token == nil {
		return [][]string{add}
	}
	return [][]string{{"pveum", "user", "token", "delete", a.user(), a.token()}, add}
}

// MakeToken creates the token and returns its secret, which Proxmox shows only once. It deletes an
// existing token of that name: programs that use it stop working, and its grants have to be made
// again.
func (a Access) MakeToken(ctx context.Context, r remote.Runner, s AccessState) (secret.Value, error) {
	var out bytes.Buffer
	for _, command := range a.TokenCommands(s) {
		out.Reset()
		if err := r.Run(ctx, remote.Cmd{Args: command, Stdout: &out}); err != nil {
			return secret.Value{}, err
		}
	}
	var made struct {
		Value string `json:"value"`
	}
	if err := json.Unmarshal(out.Bytes(), &made); err != nil {
		// The text may hold the secret, and the error may quote the text.
		return secret.Value{}, errors.New("the token was created, but pveum's answer is not valid JSON, so its secret is lost: run it again with -force")
	}
	if made.Value == "" {
		return secret.Value{}, fmt.Errorf("the token %s was made without a secret: run it again with -force", a.TokenID)
	}
	return secret.New(made.Value), nil
}
