package programs

import (
	"context"
	"io"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// runChpasswd sets passwords from lines of user:hash. Only hashes are taken, as
// with -e: nothing here can make one.
func runChpasswd(_ context.Context, p *machine.Proc) int {
	opts, _ := getopt.Parse(p.Args[1:])
	data, err := io.ReadAll(p.Stdin)
	if err != nil {
		return p.Fail("%s", err)
	}
	for _, line := range disk.Lines(data) {
		name, hash, ok := strings.Cut(line, ":")
		switch {
		case !ok:
			return p.Fail("line 1: missing new password")
		case !getopt.Has(opts, "e") && !getopt.Has(opts, "encrypted"):
			return p.Fail("only hashes (-e) are simulated")
		case disk.FindUser(p.FS, name) == nil:
			return p.Fail("(user %s) pam_chauthtok() failed, error:\nAuthentication token manipulation error", name)
		}
		if err := disk.SetPassword(p.FS, name, hash); err != nil {
			return p.Fail("cannot lock /etc/passwd; try again later.")
		}
	}
	return 0
}
