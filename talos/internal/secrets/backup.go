package secrets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"go.yaml.in/yaml/v4"

	"github.com/cps-gpu/homelab/secret"
)

// whole is the name, in a backup, of all secrets as Talos writes them.
const whole = "secrets.yaml"

// Authorities are the secrets as a backup has them: the files of Kubernetes' authorities by the names that kubeadm gives them, by
// which a backup proves that they are those of its snapshot, and beside them secrets.yaml, which is all of it.
func Authorities(b *Bundle) (secret.Value, error) {
	text, err := yaml.Marshal(b)
	if err != nil {
		return secret.Value{}, errContents
	}
	key, err := b.Certs.K8sServiceAccount.GetKey()
	if err != nil {
		return secret.Value{}, errContents // the reason may have some of it
	}
	c := b.Certs
	out, err := json.Marshal(map[string]string{
		"ca.crt": string(c.K8s.Crt), "ca.key": string(c.K8s.Key),
		"front-proxy-ca.crt": string(c.K8sAggregator.Crt), "front-proxy-ca.key": string(c.K8sAggregator.Key),
		"etcd/ca.crt": string(c.Etcd.Crt), "etcd/ca.key": string(c.Etcd.Key),
		"sa.key": string(c.K8sServiceAccount.Key), "sa.pub": string(key.GetPublicKeyPEM()),
		whole: string(text),
	})
	return secret.New(string(out)), err
}

// ErrOthers means that a backup has other secrets than the cluster.
var ErrOthers = errors.New("the backup has other secrets than the cluster")

// Compare says whether what [Authorities] returned once are these secrets: [ErrOthers], they are not.
func Compare(b *Bundle, saved secret.Value) error {
	files := map[string]string{}
	if json.Unmarshal([]byte(saved.Reveal()), &files) != nil || files[whole] == "" {
		return fmt.Errorf("the backup lacks %s", whole)
	}
	d := yaml.NewDecoder(bytes.NewReader([]byte(files[whole])))
	d.KnownFields(true)
	was := &Bundle{Clock: secrets.NewClock()}
	if d.Decode(was) != nil || was.Validate() != nil {
		return errContents
	}
	a, err := yaml.Marshal(was) // a later homelab may write them in another order
	if err != nil {
		return errContents
	}
	now, err := yaml.Marshal(b)
	if err != nil {
		return errContents
	}
	if !bytes.Equal(a, now) {
		return ErrOthers
	}
	return nil
}
