package addon

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/schedule"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
	"github.com/cps-gpu/homelab/secret"
)

const veleroNamespace = "velero"

// veleroPlugin speaks S3. 1.14 is built against Velero 1.18, which the pinned chart
// installs (seen in advisories of August 2026).
const veleroPlugin = "docker.io/velero/velero-plugin-for-aws:v1.14.2"

// Velero backs up objects of the cluster, and the contents of volumes file by file: neither
// NFS nor a node's folder has snapshots.
type Velero struct{ *spec.Backup }

func (b Velero) Info() Info {
	i := Info{
		Name: "velero", Section: "backup", On: b.Backup != nil,
		Namespace: veleroNamespace,
		Chart: chart.Pin{
			Chart: "velero", Repo: "https://vmware-tanzu.github.io/helm-charts",
			Version: "12.1.0", App: "1.18.1", Kubernetes: ">=1.16.0-0", Compared: "2026-06-25",
			Source: "pinned and read: velero-12.1.0 of 2026-06-25, Chart.yaml; velero itself is at 1.18.4 since October 2026; digest: index.yaml of its branch gh-pages",
			Digest: "sha256:cd23589ad1b2d25cdd3220f6866b3f6f4c5683c4c09494e76a14700b33f81f83",
		},
	}
	if i.On {
		i.Stays = "backups in the bucket " + b.Bucket
	}
	return i
}

func (b Velero) Make(s *Site) (Recipe, error) {
	access, err := s.Secret("backup.accessKey", b.AccessKey)
	key, keyErr := s.Secret("backup.secretKey", b.SecretKey)
	ca, caErr := File("backup.ca", b.CAFile)
	if err := errors.Join(err, keyErr, caErr); err != nil {
		return Recipe{}, err
	}
	if err := b.check(access.Reveal(), key.Reveal()); err != nil {
		return Recipe{}, err
	}
	const credentials = "velero-credentials"
	v := values{
		"credentials": values{"useSecret": true, "existingSecret": credentials},
		"initContainers": []any{values{"name": "velero-plugin-for-aws", "image": veleroPlugin,
			"volumeMounts": []any{values{"mountPath": "/target", "name": "plugins"}}}},
		"configuration": values{
			"backupStorageLocation":    []any{b.location(ca)},
			"defaultVolumesToFsBackup": b.FileSystem.IsOn(),
		},
		"snapshotsEnabled": false,
		"deployNodeAgent":  b.FileSystem.IsOn(),
		// A job that runs kubectl. Off, because applying this part upgrades the definitions.
		"upgradeCRDs": false,
		"schedules": values{"homelab": values{
			"schedule": b.Schedule,
			"template": b.template(),
		}},
	}
	if b.FileSystem.IsOn() {
		// The agent on a node reads that node's volumes, so it runs on every node, whatever
		// its taints.
		v["nodeAgent"] = values{"tolerations": everywhere()}
	}
	s.tolerate(v, nil)
	var after []runtime.Object
	if s.Has("monitoring") {
		v["metrics"] = values{"serviceMonitor": values{"enabled": true}}
		after = append(after, rulesOf("velero", veleroNamespace, backupRules()))
	}
	r := s.release(b.Info(), v)
	cloud := fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", access.Reveal(), key.Reveal())
	out := Recipe{Verify: []verify.Check{{Name: "its bucket can be reached", Try: b.reachBucket}}, Part: chart.Part{
		Name: "velero", Release: r, NamespaceLabels: privilegedLabels(), Keep: true, After: after,
		Secrets: []chart.Secret{{Namespace: veleroNamespace, Name: credentials,
			Data: map[string]secret.Value{"cloud": secret.New(cloud)}}},
	}}
	s.requireParts(&out, "monitoring")
	return out, nil
}

// reachBucket asks what Velero says of its bucket, and of the last backup into it (pkg/apis/velero/v1 of v1.18).
func (b Velero) reachBucket(ctx context.Context, c verify.Cluster) (string, error) {
	const api = "velero.io/v1"
	type status struct {
		Status struct {
			Phase   string       `json:"phase"`
			Message string       `json:"message"`
			Seen    *metav1.Time `json:"lastValidationTime"`
			Started *metav1.Time `json:"startTimestamp"`
		} `json:"status"`
	}
	places, err := kube.ListAs[status](ctx, c.Kube, api, "BackupStorageLocation", veleroNamespace, "")
	if err != nil {
		return "", err
	}
	for _, p := range places {
		if its := p.Status; its.Phase != "Available" {
			return "", fmt.Errorf("the bucket %s is %s: %s", b.Bucket, cmp.Or(its.Phase, "not looked at yet"), cmp.Or(its.Message, "Velero has not said why"))
		}
	}
	backups, err := kube.ListAs[status](ctx, c.Kube, api, "Backup", veleroNamespace, "velero.io/schedule-name")
	if err != nil {
		return "", err
	}
	var last status
	for _, one := range backups {
		if t := one.Status.Started; t != nil && (last.Status.Started == nil || last.Status.Started.Before(t)) {
			last = one
		}
	}
	switch its := last.Status; {
	case its.Started == nil:
		return "no scheduled backup yet", nil
	case its.Phase == "Failed" || its.Phase == "PartiallyFailed" || its.Phase == "FailedValidation":
		return "", fmt.Errorf("the backup of %s is %s: velero backup logs says why", its.Started.UTC().Format(time.DateTime), its.Phase)
	default:
		return fmt.Sprintf("the backup of %s is %s", its.Started.UTC().Format(time.DateTime), its.Phase), nil
	}
}

func (b Velero) check(access, key string) error {
	errs := []error{requireSet("velero", "bucket", b.Bucket)}
	if access == "" || key == "" {
		errs = append(errs, errors.New("velero: access key and secret key of the store must be set"))
	}
	if strings.ContainsAny(access+key, "\r\n") {
		errs = append(errs, errors.New("velero: a key of the store contains a line break"))
	}
	if u, err := url.Parse(b.Endpoint); b.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		errs = append(errs, fmt.Errorf("velero: endpoint %q: want https://host[:port]", b.Endpoint))
	}
	if err := schedule.Check(b.Schedule); err != nil {
		errs = append(errs, fmt.Errorf("velero: schedule %q: want five fields of cron, e.g. 0 3 * * *: %w", b.Schedule, err))
	}
	if b.Insecure && b.CAFile != "" {
		errs = append(errs, errors.New("velero: a CA is given, but certificates are not checked: choose one"))
	}
	return errors.Join(errs...)
}

func (b Velero) location(ca []byte) values {
	config := values{"region": b.Region}
	if b.Endpoint != "" {
		config["s3Url"] = b.Endpoint
		config["s3ForcePathStyle"] = "true"
		// Stores other than AWS refuse the checksums that AWS' SDK has added since 2025.
		config["checksumAlgorithm"] = ""
	}
	if b.Insecure {
		config["insecureSkipTLSVerify"] = "true"
	}
	l := values{"name": "default", "provider": "aws", "bucket": b.Bucket, "default": true, "config": config}
	if b.Prefix != "" {
		l["prefix"] = b.Prefix
	}
	if len(ca) > 0 {
		l["caCert"] = base64.StdEncoding.EncodeToString(ca)
	}
	return l
}

func (b Velero) template() values {
	t := values{"ttl": b.Retention.String(), "storageLocation": "default"}
	if len(b.Namespaces) > 0 {
		t["includedNamespaces"] = b.Namespaces
	}
	return t
}
