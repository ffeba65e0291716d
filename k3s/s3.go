package k3s

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

// s3File has the keys of the bucket and nothing else. K3s reads it after config.yaml, for
// servers and for `k3s etcd-snapshot` (pkg/configfilearg of K3s). A Secret in the cluster
// (etcd-s3-config-secret) would be the other way, but K3s reads that only while the cluster
// runs, so not for a restore (pkg/etcd/s3/config_secret.go), and nobody could restore with it
// after the cluster is lost.
const s3File = "/etc/rancher/k3s/config.yaml.d/homelab-s3.yaml"

// S3 is a bucket to which K3s copies each snapshot of etcd. The keys are never in
// config.yaml.
type S3 struct {
	Endpoint  string // etcd-s3-endpoint: host or host:port; empty: s3.amazonaws.com
	Region    string // etcd-s3-region; empty: us-east-1
	Bucket    string // etcd-s3-bucket; it must exist
	Folder    string // etcd-s3-folder; empty: the top of the bucket
	Insecure  bool   // etcd-s3-insecure: http instead of https
	AccessKey secret.Value
	SecretKey secret.Value
}

// addKeys adds the keys that are no secrets.
func (s *S3) addKeys(k map[string]any) {
	if s == nil {
		return
	}
	k["etcd-s3"] = true
	putText(k, "etcd-s3-endpoint", s.Endpoint)
	putText(k, "etcd-s3-region", s.Region)
	putText(k, "etcd-s3-bucket", s.Bucket)
	putText(k, "etcd-s3-folder", s.Folder)
	putTrue(k, "etcd-s3-insecure", s.Insecure)
}

func (s *S3) check() error {
	if s == nil {
		return nil
	}
	var errs []error
	if s.Bucket == "" {
		errs = append(errs, errors.New("s3: Bucket is empty: write the name of a bucket that exists"))
	}
	if s.AccessKey.IsZero() || s.SecretKey.IsZero() {
		errs = append(errs, errors.New("s3: AccessKey and SecretKey must both be set"))
	}
	host := s.Endpoint
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.ContainsAny(s.Endpoint, "/ \t\n") || s.Endpoint != "" && host == "" {
		errs = append(errs, fmt.Errorf("s3 endpoint %q: write HOST or HOST:PORT, and Insecure for http", s.Endpoint))
	}
	return errors.Join(errs...)
}

// text is the wanted contents of s3File. An existing file that is not wanted is emptied.
func (s *S3) text() (string, error) {
	if s == nil {
		return configHead, nil
	}
	b, err := yaml.Marshal(map[string]string{"etcd-s3-access-key": s.AccessKey.Reveal(), "etcd-s3-secret-key": s.SecretKey.Reveal()})
	if err != nil {
		return "", fmt.Errorf("the bucket's keys: %w", err)
	}
	return configHead + string(b), nil
}

// s3Sum is the SHA-256 of the wanted s3File.
func (p plan) s3Sum() string {
	sum := sha256.Sum256([]byte(p.s3.Reveal()))
	return hex.EncodeToString(sum[:])
}

// wantsS3 reports whether the spec has a bucket.
func (p plan) wantsS3() bool { return p.keys["etcd-s3"] == true }

// s3Diff compares digests, as that of registries.yaml does, and shows none.
func (p plan) s3Diff(have State) converge.Diff {
	if p.role != RoleServer {
		return nil
	}
	f := converge.Field{Path: "s3 keys", Effect: converge.Restart}
	switch {
	case !p.wantsS3() && have.S3 == "", have.S3 == p.s3Sum() && (have.S3Mode == "600" || !p.wantsS3()):
		return nil
	case !p.wantsS3():
		f.Have = "present"
	case have.S3 == "":
		f.Want = "as configured"
	case have.S3 == p.s3Sum():
		f.Have, f.Want = s3File+" with mode 0"+have.S3Mode, s3File+" with mode 0600"
	default:
		f.Have, f.Want = "other keys", "as configured"
	}
	return converge.Diff{f}
}
