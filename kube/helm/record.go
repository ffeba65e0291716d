package helm

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
)

// Helm keeps each revision of a release in a Secret of the release's namespace, as
// JSON, compressed, in base64 (helm v3.22.0, pkg/storage/driver/secrets.go). We
// read and write the same, so that `helm list` and `helm history` show ours, and we
// see theirs.
const (
	recordType   = "helm.sh/release.v1"
	recordPrefix = "sh.helm.release.v1."

	// maxHistory is how many revisions are kept. Helm keeps 10, but each may take a megabyte
	// in etcd.
	maxHistory = 5

	// labelInputs is a label of our records: a digest of chart, values and what the cluster
	// serves. Helm copies labels to the next revision, so the label alone proves nothing.
	labelInputs = "homelab.cps-gpu.github.com/inputs"
)

func recordName(name string, revision int) string {
	return recordPrefix + name + ".v" + strconv.Itoa(revision)
}

// history returns the revisions of a release that were not superseded, oldest first: usually
// one.
func (c *Client) history(ctx context.Context, namespace, name string) ([]*release.Release, error) {
	list, err := c.kube.List(ctx, "v1", "Secret", namespace, "owner=helm,name="+name+",status!="+string(release.StatusSuperseded))
	if err != nil {
		return nil, fmt.Errorf("release %s/%s: %w", namespace, name, err)
	}
	out := make([]*release.Release, 0, len(list))
	for i := range list {
		rel, err := decodeRecord(&list[i])
		if err != nil {
			return nil, err
		}
		out = append(out, rel)
	}
	slices.SortFunc(out, func(a, b *release.Release) int { return cmp.Compare(a.Version, b.Version) })
	return out, nil
}

// decodeRecord reads the Secret of a revision.
func decodeRecord(u *unstructured.Unstructured) (*release.Release, error) {
	text, _, _ := unstructured.NestedString(u.Object, "data", "release")
	inner, err := base64.StdEncoding.DecodeString(text)
	var rel *release.Release
	if err == nil {
		rel, err = unpack(inner)
	}
	if err != nil {
		return nil, fmt.Errorf("secret %s/%s is not a record of Helm's: %w", u.GetNamespace(), u.GetName(), err)
	}
	rel.Labels = u.GetLabels()
	if rel.Namespace == "" {
		rel.Namespace = u.GetNamespace()
	}
	return rel, nil
}

// maxRecord limits the unpacked size of a record, in bytes: etcd accepts at most 1.5 MiB
// compressed.
const maxRecord = 256 << 20

// unpack reads what Helm wrote.
func unpack(text []byte) (*release.Release, error) {
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(data, text)
	if err != nil {
		return nil, err
	}
	data = data[:n]
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) { // not so in the first releases of Helm 3
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		if data, err = io.ReadAll(io.LimitReader(z, maxRecord)); err != nil {
			return nil, err
		}
	}
	rel := &release.Release{}
	if err := json.Unmarshal(data, rel); err != nil {
		return nil, err
	}
	if rel.Info == nil || rel.Name == "" {
		return nil, fmt.Errorf("it names no release")
	}
	return rel, nil
}

// pack writes what Helm reads.
func pack(rel *release.Release) ([]byte, error) {
	data, err := json.Marshal(rel)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // this level exists
	_, err = z.Write(data)
	err = errors.Join(err, z.Close())
	return []byte(base64.StdEncoding.EncodeToString(b.Bytes())), err
}

// encodeRecord returns the Secret of a revision.
func encodeRecord(rel *release.Release) (*corev1.Secret, error) {
	data, err := pack(rel)
	if err != nil {
		return nil, fmt.Errorf("release %s/%s: its record: %w", rel.Namespace, rel.Name, err)
	}
	labels := maps.Clone(rel.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["name"], labels["owner"] = rel.Name, "helm"
	labels["status"], labels["version"] = rel.Info.Status.String(), strconv.Itoa(rel.Version)
	stamp := "modifiedAt"
	if labels["createdAt"] == "" {
		stamp = "createdAt"
	}
	labels[stamp] = strconv.FormatInt(time.Now().Unix(), 10)
	rel.Labels = labels
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: rel.Namespace, Name: recordName(rel.Name, rel.Version), Labels: labels},
		Type:       recordType,
		Data:       map[string][]byte{"release": data},
	}, nil
}

// createRecord creates the record of a new revision. It fails if the record exists, so that two runs
// cannot change a release at the same time.
func (c *Client) createRecord(ctx context.Context, rel *release.Release) error {
	s, err := encodeRecord(rel)
	if err != nil {
		return err
	}
	err = c.helm.Create(ctx, s)
	if errors.Is(err, kube.ErrConflict) {
		return fmt.Errorf("release %s/%s: another run started revision %d at the same time: run it again", rel.Namespace, rel.Name, rel.Version)
	}
	if err != nil {
		return fmt.Errorf("release %s/%s: begin revision %d: %w", rel.Namespace, rel.Name, rel.Version, err)
	}
	return nil
}

// note writes the status of a revision.
func (c *Client) note(ctx context.Context, rel *release.Release, status release.Status, why string) error {
	rel.SetStatus(status, why)
	s, err := encodeRecord(rel)
	if err != nil {
		return err
	}
	return patiently(ctx, func(ctx context.Context) error {
		_, err := c.helm.ServerSideApply(ctx, s)
		return err
	})
}

// deleteRecords deletes the records of revisions.
func (c *Client) deleteRecords(ctx context.Context, namespace, name string, revisions ...int) error {
	for _, n := range revisions {
		s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: recordName(name, n)}}
		if err := patiently(ctx, func(ctx context.Context) error { return c.helm.Delete(ctx, s) }); err != nil {
			return err
		}
	}
	return nil
}

// revisions returns the numbers of all revisions that are kept, oldest first.
func (c *Client) revisions(ctx context.Context, namespace, name string) ([]int, error) {
	list, err := c.kube.List(ctx, "v1", "Secret", namespace, "owner=helm,name="+name)
	if err != nil {
		return nil, err
	}
	var out []int
	for i := range list {
		if n, err := strconv.Atoi(list[i].GetLabels()["version"]); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}
