package k3s

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"sync"

	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

// Buckets are the S3 services that a network reaches. They are no hosts of it: K3s asks them
// by name.
type Buckets struct {
	mu   sync.Mutex
	here map[string]*service
}

// service is an S3 service: who may use it, and what its buckets hold.
type service struct {
	access, secret string
	buckets        map[string]map[string][]byte
}

// OfferBucket makes an S3 service with an empty bucket reachable at an endpoint, HOST or
// HOST:PORT, for those who have its keys.
func OfferBucket(n *network.Network, endpoint, bucket, access, secret string) {
	b := network.StateOf[Buckets](n)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.here == nil {
		b.here = map[string]*service{}
	}
	b.here[endpoint] = &service{access, secret, map[string]map[string][]byte{bucket: {}}}
}

// BucketKeys returns the keys of the objects in a bucket, in order.
func BucketKeys(n *network.Network, endpoint, bucket string) []string {
	b := network.StateOf[Buckets](n)
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.here[endpoint]; s != nil {
		return slices.Sorted(maps.Keys(s.buckets[bucket]))
	}
	return nil
}

// upload copies a snapshot to the configured bucket, and returns how many copies it has made.
func (n *node) upload(_ context.Context, name string, file []byte) int {
	if n.cfg.get("etcd-s3") != "true" {
		return 0
	}
	endpoint, bucket, scheme := cmp.Or(n.cfg.get("etcd-s3-endpoint"), "s3.amazonaws.com"), n.cfg.get("etcd-s3-bucket"), "https"
	if n.cfg.get("etcd-s3-insecure") == "true" {
		scheme = "http"
	}
	n.say("info", "Checking if S3 bucket %s exists", bucket)
	all := network.StateOf[Buckets](n.sys.Config.Network)
	all.mu.Lock()
	defer all.mu.Unlock()
	there, err := all.open(endpoint, bucket, n.cfg.get("etcd-s3-access-key"), n.cfg.get("etcd-s3-secret-key"), scheme)
	if err != nil {
		n.say("warning", "Unable to initialize S3 client: %v", err)
		return 0
	}
	n.say("info", "Saving etcd snapshot %s to S3", name)
	n.say("info", "Uploading snapshot to s3://%s/%s", bucket, path.Join(n.cfg.get("etcd-s3-folder"), name))
	there[path.Join(n.cfg.get("etcd-s3-folder"), name)] = file
	n.say("info", "S3 upload complete for %s", name)
	return 1
}

// bucketThere says why the configured bucket is not available.
func (n *node) bucketThere() error {
	if n.cfg.get("etcd-s3") != "true" {
		return nil
	}
	all := network.StateOf[Buckets](n.sys.Config.Network)
	all.mu.Lock()
	defer all.mu.Unlock()
	scheme := map[bool]string{true: "http", false: "https"}[n.cfg.get("etcd-s3-insecure") == "true"]
	_, err := all.open(cmp.Or(n.cfg.get("etcd-s3-endpoint"), "s3.amazonaws.com"), n.cfg.get("etcd-s3-bucket"), n.cfg.get("etcd-s3-access-key"), n.cfg.get("etcd-s3-secret-key"), scheme)
	return err
}

// removeCopy removes a snapshot's copy from the bucket.
func (n *node) removeCopy(name string) {
	if n.bucketThere() != nil || n.cfg.get("etcd-s3") != "true" {
		return
	}
	all := network.StateOf[Buckets](n.sys.Config.Network)
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.here[cmp.Or(n.cfg.get("etcd-s3-endpoint"), "s3.amazonaws.com")]
	delete(s.buckets[n.cfg.get("etcd-s3-bucket")], path.Join(n.cfg.get("etcd-s3-folder"), name))
}

// open finds a bucket as K3s does: it asks whether the bucket exists, and a wrong key is told
// then (GetClient, pkg/etcd/s3/s3.go; the texts of minio-go for an answer without a body).
func (b *Buckets) open(endpoint, bucket, access, secret, scheme string) (map[string][]byte, error) {
	s := b.here[endpoint]
	switch {
	case s == nil:
		host, _, err := net.SplitHostPort(endpoint)
		if err != nil {
			host = endpoint
		}
		return nil, fmt.Errorf("failed to test for existence of bucket %s: Head \"%s://%s/%s/\": dial tcp: lookup %s: no such host", bucket, scheme, endpoint, bucket, host)
	case s.access != access || s.secret != secret:
		return nil, fmt.Errorf("failed to test for existence of bucket %s: Access Denied.", bucket)
	case s.buckets[bucket] == nil:
		return nil, fmt.Errorf("bucket %s does not exist", bucket)
	}
	return s.buckets[bucket], nil
}

// pruneBucket removes the oldest copies (SnapshotRetention, pkg/etcd/s3/s3.go).
func (n *node) pruneBucket(prefix string, keep int) {
	if n.cfg.get("etcd-s3") != "true" || keep < 1 {
		return
	}
	all := network.StateOf[Buckets](n.sys.Config.Network)
	all.mu.Lock()
	defer all.mu.Unlock()
	there, err := all.open(cmp.Or(n.cfg.get("etcd-s3-endpoint"), "s3.amazonaws.com"), n.cfg.get("etcd-s3-bucket"),
		n.cfg.get("etcd-s3-access-key"), n.cfg.get("etcd-s3-secret-key"), "")
	if err != nil {
		return
	}
	names := slices.Collect(maps.Keys(there))
	names = slices.DeleteFunc(names, func(key string) bool {
		return len(key) < len(prefix) || path.Dir(key) != path.Clean(cmp.Or(n.cfg.get("etcd-s3-folder"), ".")) || path.Base(key)[:min(len(prefix), len(path.Base(key)))] != prefix
	})
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(takenAt(b), takenAt(a)) })
	for _, key := range names[min(keep, len(names)):] {
		n.say("info", "Removing S3 snapshot: s3://%s/%s", n.cfg.get("etcd-s3-bucket"), key)
		delete(there, key)
	}
}
