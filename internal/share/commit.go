package share

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// OfCommit is the share K/n of the commit that is checked out in dir: the same for one
// commit, and the next one for the next, so that n commits in a row run all cases. A
// shallow clone does not know how many commits came before: there K follows from the
// commit's hash.
func OfCommit(ctx context.Context, dir string, n int) (string, error) {
	shallow, err := git(ctx, dir, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return "", err
	}
	number, base := []string{"rev-list", "--count", "HEAD"}, 10
	if shallow != "false" {
		number, base = []string{"rev-parse", "--short=8", "HEAD"}, 16
	}
	text, err := git(ctx, dir, number...)
	if err != nil {
		return "", err
	}
	const digits = 8
	of, err := strconv.ParseUint(text[:min(len(text), digits)], base, 64)
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(number, " "), err)
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
