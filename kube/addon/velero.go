package addon

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/schedule"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

const veleroNamespace = "velero"

// veleroPlugin speaks S3. 1.14 is built against Velero 1.18, which the pinned chart
// installs (seen in advisories of August 2026).
const veleroPlugin = "docker.io/velero/velero-plugin-for-aws:v1.14.2"

// VeleroOptions configure where backups go, and what they contain.
type VeleroOptions struct {
	Common
	Endpoint             string // https://… of a store that speaks S3; empty: AWS
	Region               string // default "us-east-1", which stores without regions accept
	Bucket, Prefix       string
	AccessKey, SecretKey secret.Value
	CA                   []byte // certificate of the store's CA, PEM
	Insecure             bool   // the store's certificate is not checked

	Schedule   string        // cron, in UTC; default daily at 3
	Retention  time.Duration // default 30 days
	Namespaces []string      // empty: all
	FileSystem bool          // contents of volumes too, file by file
}

// Velero backs up objects of the cluster, and the contents of volumes file by file: neither
// NFS nor a node's folder has snapshots.
func Velero(o VeleroOptions) (chart.Part, error) {
	if err := o.fill(); err != nil {
		return chart.Part{}, err
	}
	const credentials = "velero-credentials"
	v := values{
		"credentials": values{"useSecret": true, "existingSecret": credentials},
		"initContainers": []any{values{"name": "velero-plugin-for-aws", "image": veleroPlugin,
			"volumeMounts": []any{values{"mountPath": "/target", "name": "plugins"}}}},
		"configuration": values{
			"backupStorageLocation":    []any{o.location()},
			"defaultVolumesToFsBackup": o.FileSystem,
		},
		"snapshotsEnabled": false,
		"deployNodeAgent":  o.FileSystem,
		// A job that runs kubectl. Off, because applying this part upgrades the definitions.
		"upgradeCRDs": false,
		"schedules": values{"homelab": values{
			"schedule": o.Schedule,
			"template": o.template(),
		}},
	}
	if o.FileSystem {
		// The agent on a node reads that node's volumes, so it runs on every node, whatever
		// its taints.
		v["nodeAgent"] = values{"tolerations": everywhere()}
	}
	o.tolerate(v, nil)
	r, err := o.release("velero", veleroNamespace, v)
	if err != nil {
		return chart.Part{}, err
	}
	cloud := fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", o.AccessKey.Reveal(), o.SecretKey.Reveal())
	return chart.Part{
		Name: "velero", Release: r, NamespaceLabels: privileged(), Keep: true,
		Secrets: []chart.Secret{{Namespace: veleroNamespace, Name: credentials,
			Data: map[string]secret.Value{"cloud": secret.New(cloud)}}},
	}, nil
}

func (o *VeleroOptions) fill() error {
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	if o.Schedule == "" {
		o.Schedule = "0 3 * * *"
	}
	if o.Retention == 0 {
		o.Retention = 30 * 24 * time.Hour
	}
	errs := []error{need("velero", "bucket", o.Bucket)}
	if o.AccessKey.IsZero() || o.SecretKey.IsZero() {
		errs = append(errs, errors.New("velero: access key and secret key of the store must be set"))
	}
	if strings.ContainsAny(o.AccessKey.Reveal()+o.SecretKey.Reveal(), "\r\n") {
		errs = append(errs, errors.New("velero: a key of the store contains a line break"))
	}
	if u, err := url.Parse(o.Endpoint); o.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		errs = append(errs, fmt.Errorf("velero: endpoint %q: want https://host[:port]", o.Endpoint))
	}
	if err := schedule.Check(o.Schedule); err != nil {
		errs = append(errs, fmt.Errorf("velero: schedule %q: want five fields of cron, e.g. 0 3 * * *: %w", o.Schedule, err))
	}
	if o.Insecure && len(o.CA) > 0 {
		errs = append(errs, errors.New("velero: a CA is given, but certificates are not checked: choose one"))
	}
	return errors.Join(errs...)
}

func (o VeleroOptions) location() values {
	config := values{"region": o.Region}
	if o.Endpoint != "" {
		config["s3Url"] = o.Endpoint
		config["s3ForcePathStyle"] = "true"
		// Stores other than AWS refuse the checksums that AWS' SDK has added since 2025.
		config["checksumAlgorithm"] = ""
	}
	if o.Insecure {
		config["insecureSkipTLSVerify"] = "true"
	}
	l := values{"name": "default", "provider": "aws", "bucket": o.Bucket, "default": true, "config": config}
	if o.Prefix != "" {
		l["prefix"] = o.Prefix
	}
	if len(o.CA) > 0 {
		l["caCert"] = base64.StdEncoding.EncodeToString(o.CA)
	}
	return l
}

func (o VeleroOptions) template() values {
	t := values{"ttl": o.Retention.String(), "storageLocation": "default"}
	if len(o.Namespaces) > 0 {
		t["includedNamespaces"] = o.Namespaces
	}
	return t
}
