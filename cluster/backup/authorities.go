package backup

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/secret"
)

// rootsPrefix begins the keys of the ConfigMaps by which pods know the authority of the API. kube-controller-manager
// puts one into each namespace (pkg/controller/certificates/rootcacertpublisher of Kubernetes).
const rootsPrefix = "/registry/configmaps/kube-system/kube-root-ca.crt"

// errAuthorities means that Kubernetes would start from the snapshot, and trust nobody in it.
var errAuthorities = errors.New("the authorities are not those of the snapshot: find those that the cluster had then")

// authoritiesIn are the files of kubeadm's authorities, by their names in /etc/kubernetes/pki; nil: token is K3s'.
func authoritiesIn(token secret.Value) map[string]string {
	if !strings.HasPrefix(token.Reveal(), "{") {
		return nil
	}
	files := map[string]string{}
	_ = json.Unmarshal([]byte(token.Reveal()), &files) // what is not there is said below
	return files
}

// checkAuthorities checks that each has its key, and that the cluster's is that of the snapshot.
func (f *Facts) checkAuthorities(keys map[string][]byte, files map[string]string) error {
	for _, name := range []string{"ca", "front-proxy-ca", "etcd/ca"} {
		if _, err := tls.X509KeyPair([]byte(files[name+".crt"]), []byte(files[name+".key"])); err != nil {
			return fmt.Errorf("the authority %s has no certificate with its key", name) // the reason may have some of it
		}
	}
	for _, name := range []string{"sa.key", "sa.pub"} {
		if files[name] == "" {
			return fmt.Errorf("the authorities lack %s, which service accounts are signed with", name)
		}
	}
	f.Authority = hexSum([]byte(files["ca.crt"]))
	if roots, there := keys[rootsPrefix]; there && !bytes.Contains(withoutEscapes(roots), bytes.TrimSpace([]byte(files["ca.crt"]))) {
		return errAuthorities
	}
	return nil
}

// withoutEscapes is an object with its lines as they are, whether etcd has it as protobuf or as JSON.
func withoutEscapes(object []byte) []byte {
	return bytes.ReplaceAll(object, []byte(`\n`), []byte("\n"))
}
