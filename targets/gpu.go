package targets

import (
	"context"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// GPU lists and verifies GPUs.
type GPU mg.Namespace

// List shows every GPU of every host: model, group, mapping, owner; over SSH also NUMA node and driver.
func (GPU) List(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	ssh *string, // USER@ADDRESS:PORT: log in to the host here, instead of where the file says
	host *string, // NAME: only this host of the file
	fingerprint *string, // SHA256:…: the host's SSH key, for the first contact
	json *bool, // print data and events as lines of JSON
) error {
	return withFlags(ctx, options(spec, json, nil), (*session.Session).GPUList, hosts(host, ssh, fingerprint))
}

// Verify runs a CUDA job on every GPU of every node, judges what nvidia-smi reports, and shows the results.
func (GPU) Verify(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	level *string, // quick, full or burn: quick computes and reads nvidia-smi; full also over-allocates, reloads systemd, writes volumes and measures links; burn loads every free GPU; default: quick
	burn *time.Duration, // DURATION: how long -level=burn loads the GPUs; default: 10m
	junit *string, // FILE: write every check here, for a CI system
	json *bool, // print data and events as lines of JSON
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
	report *string, // FILE: write a page about it here, for a browser, also if it fails
) error {
	o := options(spec, json, timeout)
	o.Report = value(report)
	flags := session.GPUVerifyFlags{Level: value(level), Burn: value(burn), JUnit: value(junit)}
	return withReport(ctx, o, "gpu:verify", func(s *session.Session, ctx context.Context) error { return s.GPUVerify(ctx, flags) })
}
