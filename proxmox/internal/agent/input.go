package agent

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/secret"
)

// agentInput runs a command with its input from the pieces in a folder.
//
//go:embed input.sh
var agentInput string

// piece is how much input one file-write takes: 61440 characters of base64.
const piece = 61440 / 4 * 3

// stage writes input to files in the guest and returns a command that feeds them to args. Only root
// can read the folder, and it is in memory (/run). done removes the folder if the command has not
// done so.
func (g *guest) stage(ctx context.Context, args []string, input []byte) (staged []string, done func(), err error) {
	folder := "/run/homelab-input-" + secret.Random(9).Reveal()
	if err := g.runArgs(ctx, "mkdir", "-m", "0700", "--", folder); err != nil {
		return nil, nil, err
	}
	done = func() {
		// Clean up even after ctx has ended, because the input may be a secret.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		_ = g.runArgs(clean, "rm", "-rf", "--", folder)
	}
	for i := 0; len(input) > 0 || i == 0; i++ {
		n := min(piece, len(input))
		// Encoded here (encode=0): Proxmox's own encoding takes text, not bytes.
		err := g.pve.Call(ctx, http.MethodPost, g.path("file-write"), api.Params{
			"file":    fmt.Sprintf("%s/%06d", folder, i),
			"content": base64.StdEncoding.EncodeToString(input[:n]), "encode": 0,
		}, nil)
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("input for %s in %s: %w", args[0], g.name, err)
		}
		input = input[n:]
	}
	return append([]string{"sh", "-c", agentInput, "sh", folder}, args...), done, nil
}

// cleanTime bounds the removal of an input after the end of its command.
const cleanTime = 100 * time.Millisecond

func (g *guest) runArgs(ctx context.Context, args ...string) error {
	result, err := g.exec(ctx, args, nil)
	if err != nil {
		return err
	}
	if result.Code != 0 {
		return fmt.Errorf("%s in %s: exit status %d: %s", args[0], g.name, result.Code, octets(result.Err))
	}
	return nil
}
