package cluster_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/pvesim"
)

// wholePlatform is nearly everything that a file can ask for, beside eight GPUs.
const wholePlatform = `
storage:
  default: nfs
  nfs:
    server: 10.0.0.5
    export: /export/k3s
    shares:
      datasets: {export: /export/datasets, readOnly: true}
  scratch: {}
loadBalancer:
  kind: metallb
  addresses: [10.0.0.200-10.0.0.220]
  reserved: {ingress: 10.0.0.200}
tls: self-signed
rancher: {hostname: rancher.lab.example}
monitoring: {hostname: grafana.lab.example}
hub:
  hostname: hub.lab.example
  auth: dummy
  shared:
    datasets: {path: /datasets}
  scratch: {size: 50GiB}
`

func TestWholePlatform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.EightA100())
		defer w.close()
		spec := parse(t, platform(t, "eight-a100", wholePlatform))
		report := w.up(t, spec)
		before := w.now()
		assert.Empty(t, w.plan(t, spec))
		report = w.up(t, spec)
		assert.Equal(t, len(report.Steps), report.Count(converge.Unchanged))
		assert.Equal(t, changes{}, before.changes())
	})
}
