-- From version 15 to 16; what each column means: schema.sql. The noise from slice to slice was not computed.
ALTER TABLE launch ADD COLUMN noise_of_second_ratio REAL;
