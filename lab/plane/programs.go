package plane

import (
	"bytes"
	"slices"

	"github.com/cps-gpu/homelab/lab/operators"
)

// programs makes the cluster that the programs in pods see.
func (p *plane) programs(disable []string) *operators.Cluster {
	ca := signer{p.cp.ca}
	return &operators.Cluster{
		Config: p.cp.config, Client: p.cp.client, Dynamic: p.dynamic, Mapper: p.mapper, CA: ca,
		Volumes: operators.NewVolumes(), Traffic: operators.NewTraffic(p.ctx, p.cp.client, ca), Disable: disable, Log: p.log,
	}
}

// signer lets programs have certificates of the cluster's CA.
type signer struct{ *authority }

// PEM is the CA's own certificate.
func (s signer) PEM() []byte { return s.pem }

// Issue makes a server's certificate and key.
func (s signer) Issue(names ...string) (cert, key []byte, err error) {
	name := "simulated"
	if len(names) > 0 && names[0] != "" {
		name = names[0]
	}
	p, err := s.issue(name, "", names...)
	return p.cert, p.key, err
}

// packaged is what K3s ships, without what its configuration disables.
func packaged(disable []string) []byte {
	if slices.Contains(disable, "local-storage") {
		return k3sManifest
	}
	return bytes.Join([][]byte{k3sManifest, localStorageManifest}, []byte("---\n"))
}
