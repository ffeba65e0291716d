package targets

import (
	"context"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// GPU lists and verifies GPUs.
type GPU mg.Namespace

// List shows every GPU of every host: model, group, mapping, owner; over SSH also NUMA node and driver. Flags: -spec=FILE -ssh=USER@ADDRESS:PORT -host=NAME -fingerprint=SHA256:… -json.
func (GPU) List(ctx context.Context, spec, ssh, host, fingerprint *string, json *bool) error {
	o := options(spec, json, nil, nil)
	o.SSH, o.Host, o.Fingerprint = value(ssh), value(host), value(fingerprint)
	return with(ctx, o, (*session.Session).GPUList)
}

// Verify runs a CUDA job on every GPU of every node and shows the results. Flags: -spec=FILE -json -timeout=15m.
func (GPU) Verify(ctx context.Context, spec *string, json *bool, timeout *time.Duration) error {
	return with(ctx, options(spec, json, nil, timeout), (*session.Session).GPUVerify)
}
