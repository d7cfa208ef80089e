"""Who may see the dashboard, and who may change something.

- `policy.py`: what the operator has decided.
- `guard.py`: the middleware before every page. It refuses, and notes who is asking.
- `addresses.py`: the Host and Origin of requests. `sessions.py`: signed cookies, and the proof that
  a form is ours, which `forms.py` asks for. `attempts.py`: how often a login may fail.
"""
