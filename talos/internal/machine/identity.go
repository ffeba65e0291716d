package machine

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"

	"github.com/cps-gpu/homelab/proxmox"
)

// Kmsg is where the kernel's log is read.
const Kmsg = "/dev/kmsg"

// issued is the record of the key (MaintenanceServiceInformController, and ABI/testing/dev-kmsg of the kernel). The
// fingerprint is the SHA-256 of the certificate's public key, in base64. The text follows the record's head
// at once: what others put into a message cannot look like it.
var issued = regexp.MustCompile(`(?m)^\d+,\d+,\d+,[^;\n]*;\[talos\] server certificate issued [^\n]*"fingerprint": "([A-Za-z0-9+/]{43}=)"`)

// ErrNoKey means that the machine has not said its key yet, or is not in maintenance mode.
var ErrNoKey = errors.New("the machine's log has no key of its maintenance mode yet")

// maxLog limits what is read: the kernel's log has 2^17 bytes or a few times that (CONFIG_LOG_BUF_SHIFT), and records have heads.
const maxLog = 16 << 20

// Fingerprint returns the SHA-256 of the public key that the machine shows in maintenance mode. It is the last one
// that the log has: a machine makes another certificate when its addresses change. read returns the first bytes of
// the log, or proxmox.ErrShort if it has fewer; that is all that a guest agent can do with a device, so
// the log's length is searched for, in some thirty requests.
func Fingerprint(ctx context.Context, read func(ctx context.Context, count int) ([]byte, error)) ([]byte, error) {
	log, err := wholeLog(ctx, read)
	if err != nil {
		return nil, fmt.Errorf("the machine's key: %w", err)
	}
	all := issued.FindAllSubmatch(log, -1)
	if len(all) == 0 {
		return nil, ErrNoKey
	}
	return base64.StdEncoding.DecodeString(string(all[len(all)-1][1]))
}

func wholeLog(ctx context.Context, read func(context.Context, int) ([]byte, error)) (log []byte, err error) {
	have, most := 0, maxLog
	for next := 4096; have+1 < most; {
		b, err := read(ctx, next)
		switch {
		case errors.Is(err, proxmox.ErrShort):
			most = next
		case err != nil:
			return nil, err
		case len(b) != next:
			return nil, fmt.Errorf("%d bytes of the log came, and %d were asked for", len(b), next)
		default:
			have, log = next, b
		}
		if next = have * 2; next >= most || have == 0 {
			next = (have + most) / 2
		}
	}
	return log[:bytes.LastIndexByte(log, '\n')+1], nil
}
