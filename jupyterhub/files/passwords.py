# Gives the one-password authenticator its passwords, which values cannot hold.
from z2jh import get_secret_value

c.SharedPasswordAuthenticator.user_password = get_secret_value("user-password")  # noqa: F821
c.SharedPasswordAuthenticator.admin_password = get_secret_value("admin-password")  # noqa: F821
