"""Texts that only show a secret, and texts that use one."""

from __future__ import annotations

KEY = "sk_live_" + "9fQ2mZr7Lw4XbT8kVn3Y"
SHOWN = {
    "a fixture": "    client = Client(password='s3cret!99')",
    "a default": "DATABASE_URL=postgres://postgres:postgres7@localhost:5432/app",
    "a service of compose": "url = 'mysql://root:V7qk2Lm9Zx@db:3306/shop'",
    "documentation": f'For example: export STRIPE_KEY="{KEY}"',
    "what not to do": f"// DON'T capture:\nerror: API_KEY={KEY}",
    "a test": f'def test_keys():\n    api_key = "{KEY}"',
    "test mode of the provider": "stripe listen --api-key sk_test_9fQ2mZr7Lw4XbT8kVn3Y",
    "the maker's own example": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "the id of a key": "AWS_ACCESS_KEY_ID=AKIA2MZR7LWXBTQKVNYF",
    "a row of signs": 'github = "ghp_0123456789abcdefghij0123456789ABCDEF"',
    "a placeholder": "curl -u admin:changeme99 https://shop.internal/api",
    "a doctest": ">>> client.login(password='Vq7!kLm2Zx9w')",
    "output in documentation": 'Output::\n\n    {"SecretAccessKey": "qT7Lm2Zx9Vw4Kp8Rb6Nd3Hs5Jf1Gc0Ye/AoU+IiQ"}',
    "the key of a text": 'reset_password: d("onboarding.formBody.resetPassword2")',
    "a mark of a request": 'client_token = "d5c090f5-8a0f-49c7-8281-72c796a21f72"',
    "a key that is made to be shown": 'publicKeyToken="1fc8b3b9a1e18e3b"',
}
PEM = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz\n"
    "c2gtZWQyNTUxOQAAACDk3V9wQ2mZr7Lw4XbT8kVn3Y6Hc1Jd5Gs0Pe8RtUa\n"
    "-----END OPENSSH PRIVATE KEY-----"
)
USED = {
    "a settings file": "cat .env.production\nSTRIPE_SECRET=<key>\nPORT=8080",
    "a command": 'export STRIPE_API_KEY="<key>" && ./deploy.sh production',
    "a header": "curl -s -H 'Authorization: Bearer <key>' https://api.stripe.com/v1/balance",
    "a login": "docker login -u deploy --password Vq7kLm2Zx9wT registry.shop.internal",
    "a database far away": "psql postgres://app:Vq7kLm2Zx9wT@db1.shop.internal:5432/orders -c 'select 1'",
    "a remote": "git remote add origin https://ada:ghp_9fQ2mZr7Lw4XbT8kVn3Y6Hc1Jd5Gs0Pe8RtU@github.com/shop/till.git",
    "what a program printed": "config loaded: {'stripe_key': '<key>', 'region': 'eu'}",
    "what a person typed": "use this key, it is the production one: <key>",
    "a settings file of npm": "//registry.npmjs.org/:_authToken=npm_9fQ2mZr7Lw4XbT8kVn3Y6Hc1Jd5Gs0Pe8RtU",
    "a key with its lines": PEM,
    "a cloud": "aws configure set aws_secret_access_key qT7Lm2Zx9Vw4Kp8Rb6Nd3Hs5Jf1Gc0YeAoUIiQ2W",
    "a log": "POST https://hooks.shop.internal/deploy?api_key=9fQ2mZr7Lw4XbT8kVn3Y6Hc1 200",
}
