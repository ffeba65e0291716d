package remote_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/remote"
)

// The outputs are those of real programs, apt-get 2.6 and kmod 30 among them.
func TestTelling(t *testing.T) {
	for want, output := range map[string]string{
		"E: Unable to locate package nosuchpackage | E: Version '9.9' for 'curl' was not found": "Reading package lists...\nBuilding dependency tree...\nPackage curl is not available, but is referred to by another package.\n" +
			"This may mean that the package is missing, has been obsoleted, or\nis only available from another source\n\nE: Unable to locate package nosuchpackage\nE: Version '9.9' for 'curl' was not found\n",
		"W: Failed to fetch https://127.0.0.1:4443/stable/./InRelease Could not connect to 127.0.0.1:3199 (127.0.0.1). - connect (111: Connection refused) | W: Some index files failed to download. They have been ignored, or old ones used instead.": "W: Failed to fetch https://127.0.0.1:4443/stable/./InRelease Could not connect to 127.0.0.1:3199 (127.0.0.1). - connect (111: Connection refused)\n" +
			"W: Some index files failed to download. They have been ignored, or old ones used instead.\n",
		"dpkg: error processing package nvidia-dkms-580 (--configure): | E: Sub-process /usr/bin/dpkg returned an error code (1)": "dpkg: error processing package nvidia-dkms-580 (--configure):\n installed nvidia-dkms-580 package post-installation script subprocess returned error exit status 10\n" +
			"Errors were encountered while processing:\n nvidia-dkms-580\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n",
		"modprobe: WARNING: Module nosuchmodule not found in directory /lib/modules/6.18.44 | Cloud-init v. 25.1 finished": "modprobe: WARNING: Module nosuchmodule not found in directory /lib/modules/6.18.44\nCloud-init v. 25.1 finished\n",
		"curl: (56) CONNECT tunnel failed, response 403":                                                                   "curl: (56) CONNECT tunnel failed, response 403\n",
		"b | c | d": "a\nb\n\nc\nd\n",
		"":          "\n \n",
	} {
		assert.Equal(t, want, remote.FailureText(output))
	}
}
