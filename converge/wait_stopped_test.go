//go:build unix

package converge_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

// stopped is set in the process that TestStoppedTimeDoesNotCount stops.
const stopped = "HOMELAB_TEST_STOPPED"

// A process that is stopped for twice its limit has nearly all of it left.
func TestStoppedTimeDoesNotCount(t *testing.T) {
	const limit = 2 * time.Second
	if os.Getenv(stopped) != "" {
		start := time.Now()
		ctx, cancel := converge.WithRunningTimeout(t.Context(), limit, errors.New("over"))
		defer cancel()
		fmt.Println("begun")
		<-ctx.Done()
		fmt.Println("took", time.Since(start))
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestStoppedTimeDoesNotCount$", "-test.v") //nolint:gosec // this very program
	cmd.Env = append(os.Environ(), stopped+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var took time.Duration
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		_, text, _ := strings.Cut(lines.Text(), "took ")
		switch {
		case strings.Contains(lines.Text(), "begun"):
			require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
			<-time.After(2 * limit)
			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		case text != "":
			took, err = time.ParseDuration(text)
			require.NoError(t, err)
		}
	}
	require.NoError(t, cmd.Wait())
	assert.Greater(t, took, 2*limit+limit*8/10, "it was stopped for %s", 2*limit)
}
