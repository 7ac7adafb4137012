-- From version 3 to 4; what each column means: schema.sql. Which part of state D was the start of a child was not looked at.
ALTER TABLE window ADD COLUMN spawning_s REAL;

ALTER TABLE usage ADD COLUMN spawning_s_total REAL;
