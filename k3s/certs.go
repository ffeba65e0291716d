package k3s

import (
	"context"
	"crypto/x509"
	_ "embed" // the scripts below
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

var (
	//go:embed certs.sh
	certsScript string
	//go:embed rotate.sh
	rotateScript string
)

// Certificate is one of K3s' certificates on a machine.
type Certificate struct {
	File      string    `json:"file"`    // without its folder, but for one in tls/, as etcd/
	Subject   string    `json:"subject"` // its common name
	Authority bool      `json:"authority,omitempty"`
	From      time.Time `json:"from"`
	Until     time.Time `json:"until"`
}

// Certificates reads K3s' certificates on a machine, the first to end first. There is none on
// a machine that never joined a cluster.
func Certificates(ctx context.Context, r remote.Runner) ([]Certificate, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", certsScript, "certs.sh")
	if err != nil {
		return nil, fmt.Errorf("read k3s' certificates: %w", err)
	}
	sections := split(out)
	if _, whole := sections["end"]; !whole {
		return nil, fmt.Errorf("read k3s' certificates: the output was truncated after %d bytes", len(out))
	}
	var all []Certificate
	for _, file := range sortedKeys(sections) {
		block, _ := pem.Decode([]byte(sections[file])) // a file begins with its own; the authorities follow
		if block == nil {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read k3s' certificates: %s: %w", file, err)
		}
		name := path.Base(file)
		if dir := path.Base(path.Dir(file)); dir != "tls" && dir != "agent" {
			name = dir + "/" + name
		}
		all = append(all, Certificate{File: name, Subject: c.Subject.CommonName, Authority: c.IsCA || strings.HasSuffix(name, "-ca.crt"), From: c.NotBefore, Until: c.NotAfter})
	}
	slices.SortStableFunc(all, func(a, b Certificate) int { return a.Until.Compare(b.Until) })
	return all, nil
}

// RotateCertificates makes new certificates for K3s on a machine, and returns once its start
// is requested. K3s is away meanwhile, so the caller does it on one machine at a time. The
// authorities stay.
func RotateCertificates(ctx context.Context, r remote.Runner, role Role) error {
	if role != RoleServer && role != RoleAgent {
		return errors.New("rotate k3s' certificates: there is no K3s on this machine")
	}
	converge.Progressf(ctx, "rotating the certificates of k3s %s", role)
	if err := remote.Run(ctx, r, "sh", "-c", rotateScript, "rotate.sh", role.Unit()); err != nil {
		return fmt.Errorf("rotate k3s' certificates: %w", err)
	}
	return nil
}
