package guest

import (
	"context"
	"io"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// runChpasswd sets passwords from lines of user:hash. Only hashes are taken, as
// with -e: nothing here can make one.
func runChpasswd(_ context.Context, p *proc) int {
	opts, _ := flags(p.args[1:])
	data, err := io.ReadAll(p.stdin)
	if err != nil {
		return p.fail("%s", err)
	}
	for _, line := range disk.Lines(data) {
		name, hash, ok := strings.Cut(line, ":")
		switch {
		case !ok:
			return p.fail("line 1: missing new password")
		case !has(opts, "e") && !has(opts, "encrypted"):
			return p.fail("only hashes (-e) are simulated")
		case disk.FindUser(p.fs, name) == nil:
			return p.fail("(user %s) pam_chauthtok() failed, error:\nAuthentication token manipulation error", name)
		}
		if err := disk.SetPassword(p.fs, name, hash); err != nil {
			return p.fail("cannot lock /etc/passwd; try again later.")
		}
	}
	return 0
}
