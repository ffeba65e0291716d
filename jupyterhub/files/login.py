# JupyterHub asks who may use the hub at a sign-in only, and later merely whether the login still knows
# the person (5.5 handlers/base.py, refresh_auth). With this, who loses the groups that give rights is out
# as fast as who leaves.
from oauthenticator.generic import GenericOAuthenticator
from tornado.web import HTTPError


class Login(GenericOAuthenticator):
    async def refresh_user(self, user, handler=None, **kwargs):
        model = await super().refresh_user(user, handler, **kwargs)
        if not isinstance(model, dict):
            return model
        try:
            allowed = await self.check_allowed(model["name"], model)
        except HTTPError:
            allowed = False
        return model if allowed else False


c.JupyterHub.authenticator_class = Login
