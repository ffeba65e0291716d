package guest

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// The answers are those of sudo 1.9.13 and 1.9.16 to the same lines.
func TestSudoWithPasswords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, config(t, testUser))
		v := disk.ViewOf(m.core.Config.Disk)
		hash, err := bcrypt.GenerateFromPassword([]byte("right horse"), bcrypt.MinCost)
		require.NoError(t, err)
		require.NoError(t, disk.SetPassword(v, "admin", string(hash)))
		v.Save("/etc/sudoers", "", 0o440)
		const tries = "Sorry, try again.\n"
		for _, test := range []struct {
			rules, command string
			code           int
			out            string
		}{
			{"admin ALL=(ALL:ALL) ALL", "sudo -n -k true", 1, "sudo: a password is required\n"},
			{"admin ALL=(ALL:ALL) ALL", "printf 'right horse\\nabc\\n' | sudo -S -k -p '' -- cat", 0, "abc\n"},
			{"admin ALL=(ALL:ALL) ALL", "printf 'wrong\\n' | sudo -S -k -p '' true", 1, tries + "\nsudo: no password was provided\nsudo: 1 incorrect password attempt\n"},
			{"admin ALL=(ALL:ALL) ALL", "printf 'wrong\\n\\nabc\\ndef\\n' | sudo -S -k -p '' -- cat", 1, tries + tries + "sudo: 3 incorrect password attempts\n"},
			{"admin ALL=(ALL:ALL) ALL", "sudo -S -k -p '' true </dev/null", 1, "\nsudo: no password was provided\nsudo: a password is required\n"},
			{"admin ALL=(ALL:ALL) ALL", "printf 'right horse\\n' | sudo -S -k -p '' -- nosuch", 1, "sudo: nosuch: command not found\n"},
			{"admin ALL=(ALL:ALL) NOPASSWD:ALL", "printf 'wrong\\nabc\\n' | sudo -S -k -p '' -- cat", 0, "wrong\nabc\n"},
			{"admin ALL=(ALL:ALL) ALL\nadmin ALL=(ALL) NOPASSWD: /usr/bin/cat", "printf 'wrong\\nabc\\n' | sudo -S -k -p '' -- cat", 0, "wrong\nabc\n"},
			{"admin ALL=(ALL:ALL) ALL\nadmin ALL=(ALL) NOPASSWD: /usr/bin/cat", "sudo -n -k true", 1, "sudo: a password is required\n"},
			{"# none", "sudo -n -k true", 1, "sudo: a password is required\n"},
			{"# none", "printf 'right horse\\n' | sudo -S -k -p '' true", 1, "admin is not in the sudoers file.\n"},
			{"Defaults requiretty\nadmin ALL=(ALL:ALL) ALL", "printf 'right horse\\n' | sudo -S -k -p '' true", 1, "sudo: sorry, you must have a tty to run sudo\n"},
		} {
			v.Save("/etc/sudoers.d/90-cloud-init-users", test.rules+"\n", 0o440)
			code, out := shellAs(m, "admin", test.command)
			assert.Equal(t, test.out, out, test.rules+": "+test.command)
			assert.Equal(t, test.code, code, test.rules+": "+test.command)
		}
	})
}
