-- What is above normal is rare, and is what a person asks for first. Ordinary runs pay nothing for it.
CREATE INDEX runs_urgent ON runs (severity, state, id) WHERE severity >= 2;
CREATE INDEX runs_tenant_urgent ON runs (tenant, severity, state, id) WHERE severity >= 2;
