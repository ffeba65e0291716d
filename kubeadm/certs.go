package kubeadm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/remote"
)

// Certificate is a certificate of Kubernetes on a machine.
type Certificate struct {
	File      string // below /etc/kubernetes/pki, e.g. etcd/ca.crt
	Subject   string // its common name
	Authority bool
	From      time.Time
	Until     time.Time
}

// certsScript prints certificates and no key: kubelet's own, which it renews itself, is in one file with its key.
const certsScript = `cd /etc/kubernetes/pki 2>/dev/null || exit 0
for file in *.crt etcd/*.crt; do
	if [ -f "$file" ]; then
		printf '\n@@ %s\n' "$file"
		cat "$file"
	fi
done`

// Certificates reads those on a machine, the first to end first. A machine that is not a member has none, and an
// agent has that of the authority alone.
func Certificates(ctx context.Context, r remote.Runner) ([]Certificate, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", certsScript)
	if err != nil {
		return nil, fmt.Errorf("read the certificates: %w", err)
	}
	var all []Certificate
	for _, part := range bytes.Split(out, []byte("\n@@ "))[1:] {
		name, text, _ := bytes.Cut(part, []byte("\n"))
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, fmt.Errorf("read the certificates: %s has none", name)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read the certificates: %s: %w", name, err)
		}
		all = append(all, Certificate{File: string(name), Subject: c.Subject.CommonName, Authority: c.IsCA, From: c.NotBefore, Until: c.NotAfter})
	}
	slices.SortFunc(all, func(a, b Certificate) int { return cmp.Or(a.Until.Compare(b.Until), strings.Compare(a.File, b.File)) })
	return all, nil
}
