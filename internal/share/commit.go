package share

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// OfCommit is the share K/n of the commit that is checked out in dir. K depends on the commit's
// hash: it is fixed for a commit, and commits spread evenly over the shares, even if CI runs only
// for some of them.
func OfCommit(ctx context.Context, dir string, n int) (string, error) {
	hash, err := git(ctx, dir, "rev-parse", "--short=8", "HEAD")
	if err != nil {
		return "", err
	}
	const digits = 8
	of, err := strconv.ParseUint(hash[:min(len(hash), digits)], 16, 64)
	if err != nil {
		return "", fmt.Errorf("git rev-parse: %w", err)
	}
	return share{int(of%uint64(n)) + 1, n}.String(), nil //nolint:gosec // n is small
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
